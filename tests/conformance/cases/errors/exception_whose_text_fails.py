"""An exception whose __str__ raises is replaced by what that raised; one whose __repr__ raises is not."""


class NoText(Exception):
    def __str__(self):
        raise LookupError("no text")


class NoRepr(Exception):
    def __repr__(self):
        raise LookupError("no repr")


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def fail(kind):
        raise kind("a")

    for kind in (NoText, NoRepr):
        error = ctx.raises(lambda: ray.get(fail.remote(kind)), "NoText", "NoRepr", "LookupError")
        ctx.show(type(error.cause).__name__, error.cause.args)
