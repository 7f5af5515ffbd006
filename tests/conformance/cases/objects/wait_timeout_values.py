"""What wait takes for a timeout: numbers of any kind, counted in 64 bits of milliseconds; none below zero."""
import decimal
import fractions

INF = float("inf")


def run(ctx):
    ray = ctx.ray
    ref = ray.put(1)
    for timeout in (0, -0.0, 1e-9, True, None, 1e10, decimal.Decimal("0.1"), fractions.Fraction(1, 10)):
        ready, rest = ray.wait([ref], timeout=timeout)
        ctx.show(repr(timeout), len(ready), len(rest))
    for timeout in (-1, -INF, float("nan"), INF, 10**20, "1", [1], 1 + 0j):
        ctx.show(repr(timeout))
        ctx.raises(lambda: ray.wait([ref], timeout=timeout))
