"""What a plain actor's call leaves in its context for the next one: ContextVars and their tokens, decimal, a generator that a later call continues. Not in another actor, a task or the driver."""

import contextlib
import contextvars
import decimal


def run(ctx):
    ray = ctx.ray
    driver = str(decimal.Decimal(1) / 3)

    class Keeps:
        def __init__(self):
            self.var = contextvars.ContextVar("var", default="unset")
            self.token = self.var.set("init")
            self.stack = contextlib.ExitStack()
            self.stack.enter_context(decimal.localcontext())
            decimal.getcontext().prec = 5
            self.generator = self.steps()

        def steps(self):
            with decimal.localcontext() as context:
                context.prec = 3
                yield str(decimal.Decimal(1) / 3)
                yield str(decimal.Decimal(2) / 3)
            yield str(decimal.Decimal(1) / 3)

        def step(self):
            return next(self.generator), str(decimal.Decimal(1) / 3)

        def get(self):
            return self.var.get(), contextvars.copy_context().run(self.var.get)

        def set(self, value):
            self.second = self.var.set(value)

        def reset(self, second):
            self.var.reset(self.second if second else self.token)
            return self.var.get()

        def fail(self):
            self.var.set("failed")
            raise KeyError

        def close(self):
            self.stack.close()
            return str(decimal.Decimal(1) / 3)

    actor, other = ray.remote(Keeps).remote(), ray.remote(Keeps).remote()
    ctx.show(ray.get([actor.get.remote(), actor.step.remote(), actor.step.remote(), actor.step.remote()]))
    ray.get(actor.set.remote("second"))
    ctx.raises(lambda: ray.get(actor.fail.remote()), "KeyError")
    ctx.show(ray.get([actor.get.remote(), actor.reset.remote(True), actor.reset.remote(False), actor.close.remote()]))
    ctx.show(ray.get([other.get.remote(), other.step.remote()]))
    ctx.show(ray.get(ray.remote(lambda: str(decimal.Decimal(1) / 3)).remote()) == driver, str(decimal.Decimal(1) / 3) == driver)
    ctx.raises(lambda: ray.get(actor.reset.remote(False)), "RuntimeError")

    @ray.remote
    class Streams:
        def __init__(self):
            self.var = contextvars.ContextVar("var", default="unset")

        def stream(self):
            for n in range(3):
                self.var.set(n)
                yield self.var.get()

        def get(self):
            return self.var.get()

    streams = Streams.remote()
    ctx.show([ray.get(item) for item in streams.stream.options(num_returns="streaming").remote()], ray.get(streams.get.remote()))
