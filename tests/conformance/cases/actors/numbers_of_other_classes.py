"""A method's options take any number that int() takes: a Decimal, a Fraction, a number of numpy; but no text."""
from decimal import Decimal
from fractions import Fraction


class Whole:
    def __int__(self):
        return 2


class Index:
    def __index__(self):
        return 2


def run(ctx):
    ray = ctx.ray

    @ray.remote
    class Worker:
        def __init__(self):
            self.calls = 0

        def pair(self):
            return 1, 2

        def each(self):
            yield 1
            yield 2

        def shaky(self):
            self.calls += 1
            raise ValueError(self.calls)

    worker = Worker.remote()
    for value in (2, 2.5, Decimal(2), Fraction(5, 2), Whole(), Index(), "2", b"2", [2], 2j, 0.5, Decimal(0), Decimal(-1), Decimal(-2)):
        ctx.show(type(value).__name__)
        for method in worker.pair, worker.each:
            try:
                made = method.options(num_returns=value).remote()
                got = ray.get(made)
                ctx.show("  num_returns", type(made).__name__, type(got).__name__ if "Generator" in str(got) else got)
            except Exception as error:
                ctx.show("  num_returns", type(error).__name__)
        for option in "max_task_retries", "_generator_backpressure_num_objects":
            if option[0] == "_" and value in (0.5, 0):
                continue  # on Ray the worker dies: portability page
            try:
                ctx.show(" ", option, ray.get(worker.pair.options(**{option: value}).remote()))
            except Exception as error:
                ctx.show(" ", option, type(error).__name__)
    for value in (Decimal(2), Fraction(5, 2), 2.5):
        fresh = Worker.remote()
        try:
            ray.get(fresh.shaky.options(max_task_retries=value, retry_exceptions=True).remote())
        except ValueError as error:
            ctx.show(type(value).__name__, "retries", error.cause)
