"""What wait takes for num_returns: a number from 1 to the number of references, of which the whole part counts."""
import decimal

INF = float("inf")


def run(ctx):
    ray = ctx.ray
    refs = [ray.put(number) for number in range(3)]
    for wanted in (1, 3, True, 1.0, 1.5, 2.9, decimal.Decimal(2)):
        ready, rest = ray.wait(refs, num_returns=wanted)
        ctx.show(repr(wanted), len(ready), len(rest))
    for wanted in (0, -1, False, 4, 3.5, 10**30, 0.5, float("nan"), INF, -INF, None, "1"):
        ctx.show(repr(wanted))
        ctx.raises(lambda: ray.wait(refs, num_returns=wanted))
    ctx.show(ray.wait([], num_returns=7))
