"""What a RayTaskError calls its function and its process: named tasks, lambdas, methods, constructors, dependents."""

import re


def run(ctx):
    ray = ctx.ray

    def told(what, ref):
        try:
            ray.get(ref)
        except Exception as error:
            lines = [line for line in str(error).split("\n") if "ray::" in line]
            shown = [re.sub(r"\x1b\[\d+m|(mini)?ray\.exceptions\.|\(pid=.*", "", line) for line in lines]
            ctx.show(what, shown)
            if type(error).__name__ == "RayTaskError":
                ctx.show(
                    what,
                    "function",
                    error.function_name,
                    "process",
                    error.proctitle,
                    "args",
                    error.args[0],
                    error.args[3:],
                )

    class Odd(BaseException):
        pass

    def outer():
        def inner(x=None):
            raise BaseException("inner")

        return inner

    class Holder:
        @staticmethod
        def static(x=None):
            raise BaseException("static")

    @ray.remote
    class Plain:
        def __init__(self, fail=False):
            if fail:
                raise BaseException("constructor")

        def method(self, x=None):
            raise BaseException("method")

        def items(self):
            yield 1
            raise BaseException("items")

        def takes(self, x):
            return x

    @ray.remote
    class Async:
        async def method(self, x=None):
            raise ValueError("method")

    @ray.remote
    def items():
        yield 1
        raise BaseException("items")

    @ray.remote
    def takes(x):
        return x

    inner = ray.remote(outer())
    plain = Plain.remote()
    told("inner", inner.remote())
    told("named", inner.options(name="other").remote())
    told("named in the decorator", ray.remote(name="deco")(outer()).remote())
    told("static", ray.remote(Holder.static).remote())
    told("lambda", ray.remote(lambda: [][1]).remote())
    told("lambda named", ray.remote(name="lam")(lambda: [][1]).remote())
    told("method", plain.method.remote())
    told("method named", plain.method.options(name="call").remote())
    told("method of a named actor", Plain.options(name="an actor").remote().method.remote())
    told("method of an async actor", Async.remote().method.remote())
    told("method of an async actor named", Async.remote().method.options(name="call").remote())
    told("constructor", Plain.remote(True).method.remote())
    told("constructor of a named actor", Plain.options(name="another").remote(True).method.remote())
    told("dependent", takes.remote(inner.remote()))
    told("dependent named", takes.options(name="dep").remote(inner.options(name="first").remote()))
    told("dependent method", plain.takes.remote(inner.remote()))
    stream = items.remote()
    next(stream)
    told("generator", next(stream))
    stream = plain.items.options(num_returns="streaming").remote()
    next(stream)
    told("generator method", next(stream))
    told("nested", ray.remote(lambda: ray.get(inner.options(name="deep").remote())).remote())
