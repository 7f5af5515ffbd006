"""What get takes for a timeout: below zero is none; counted in 64 bits of milliseconds; not looked at for an empty list."""
import decimal
import fractions

INF = float("inf")


def run(ctx):
    ray = ctx.ray
    ref = ray.put(1)
    for timeout in (0, -1, -0.5, 1e-9, True, None, 1e10, decimal.Decimal("0.1"), fractions.Fraction(1, 10)):
        ctx.show(repr(timeout), ray.get(ref, timeout=timeout), ray.get([ref], timeout=timeout))
    for timeout in (float("nan"), INF, -INF, 10**20, [1], 1 + 0j, object):
        ctx.show(repr(timeout))
        ctx.raises(lambda: ray.get(ref, timeout=timeout))
        ctx.raises(lambda: ray.get([ref], timeout=timeout))
        ctx.show(ray.get([], timeout=timeout))
