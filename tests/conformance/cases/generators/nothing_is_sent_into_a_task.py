"""The methods of a Python generator that a streaming task's generator has too: their arguments, and what they raise."""

import inspect

INIT = None


def run(ctx):
    cls = ctx.ray.ObjectRefGenerator
    for name in "send", "throw", "close", "asend", "athrow", "aclose":
        parameters = [str(one).partition(":")[0] for one in inspect.signature(getattr(cls, name)).parameters.values()]
        ctx.show(name, parameters, inspect.iscoroutinefunction(getattr(cls, name)))
    for call in lambda: cls.close(None), lambda: cls.send(None, 1), lambda: cls.throw(None, value=1):
        ctx.raises(call, "NotImplementedError")
    for call in lambda: cls.close(None, 1), lambda: cls.send(None), lambda: cls.throw(None, 1, 2):
        ctx.raises(call, "TypeError")
    ctx.show([one.__module__ == ctx.ray.__name__ for one in (ctx.ray.ObjectRef, cls)])
