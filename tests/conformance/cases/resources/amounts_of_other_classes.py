"""An amount in `resources` that is neither an int nor a float, such as a Decimal, is refused at the call, not before."""
from decimal import Decimal
from fractions import Fraction


class Actor:
    pass


def task():
    pass


def run(ctx):
    ray = ctx.ray

    def tried(call):
        try:
            call()
            return "taken"
        except Exception as error:
            return type(error).__name__

    amounts = Decimal(1), Decimal(0), Decimal(-1), Fraction(1, 2), Fraction(1, 10**9), "1", None, 1j, [1], True, 1.0, float("nan")
    for amount in amounts:
        ctx.show(repr(amount))
        for name in "x", "TPU", "HPU", "NPU":
            ctx.show(" ", name, *[tried(lambda: ray.remote(what).options(resources={name: amount})) for what in (task, Actor)])
        if amount not in (True, 1.0):  # would wait: there is none
            ctx.show("  call", tried(lambda: ray.remote(task).options(resources={"x": amount}).remote()),
                     tried(lambda: ray.remote(Actor).options(resources={"x": amount}).remote()))
