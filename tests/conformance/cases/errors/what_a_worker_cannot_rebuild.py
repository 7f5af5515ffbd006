"""A function or an actor class that refers to a value which cannot be rebuilt fails to import, with a RuntimeError."""


class Pair(Exception):
    """Its arguments are not in `args`, so that its pickle cannot be loaded."""

    def __init__(self, a, b):
        super().__init__(f"{a}{b}")


class Broken:
    """Its pickle cannot be loaded."""

    def __reduce__(self):
        return int, ("zz",)


def run(ctx):
    ray = ctx.ray

    def last_line(error):
        return str(error).splitlines()[-1]

    for value in Pair(1, 2), Broken():

        @ray.remote(max_retries=0)
        def refer(value=value):
            return repr(value)

        def closing(value):
            def inner():
                return repr(value)

            return ray.remote(inner)

        @ray.remote
        def take(value):
            return 1

        @ray.remote
        class Holder:
            held = value

            def one(self, value=0):
                return 1

        @ray.remote
        class Plain:
            def one(self, value=0):
                return 1

        ctx.show(type(value).__name__)
        for call in (
            lambda: ray.get(refer.remote()),
            lambda: ray.get(closing(value).remote()),
            lambda: ray.get(Holder.remote().one.remote()),
        ):
            error = ctx.raises(call, "RuntimeError", "ActorDiedError")
            ctx.show("failed to import on the worker" in str(error), last_line(error))
        for call in (
            lambda: ray.get(take.remote(value)),
            lambda: ray.get(Plain.remote().one.remote([value])),
            lambda: ray.get(ray.put(value)) if not isinstance(value, Exception) else ray.get(ray.put([value])),
        ):
            error = ctx.raises(call, "RaySystemError")
            ctx.show("Traceback (most recent call last):" in str(error), last_line(error))
    retried = closing(Broken()).options(retry_exceptions=[RuntimeError], max_retries=1)
    ctx.raises(lambda: ray.get(retried.remote()), "RuntimeError")
