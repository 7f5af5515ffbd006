"""The constructors of Ray's errors: which arguments they take, and what the text and args then are."""

import re

INIT = None
VALUES = [None, "", "x", b"", b"x" * 16, 0, {}, [1]]


def run(ctx):
    errors = ctx.ray.exceptions

    def show(name, *args):
        try:
            error = getattr(errors, name)(*args)
        except Exception as refused:
            ctx.show(name, args, "is refused:", type(refused).__name__)
            return
        try:
            text = "a text" if str(error) else "no text"
        except Exception as problem:
            text = f"str() raises {type(problem).__name__}"
        ctx.show(name, error.args, text)

    for value in VALUES:
        show("ActorDiedError", value)
        show("ActorUnavailableError", "why", value)
        show("ObjectLostError", "ab", None, value)
        show("OwnerDiedError", "ab", value, "")
        show("AuthenticationError", value)
    show("RayTaskError", None, None, None)
    ctx.show(errors.RayTaskError("f", "KeyError: 1", KeyError(1)), "|")
    ctx.show(errors.ObjectLostError("ab", None, "one | two").call_site)
    header = str(errors.RayTaskError("f", "Traceback (most recent call last):\nKeyError: 1", KeyError(1)))
    ctx.show(re.sub(r"\x1b\[\d+m|\d", "", header).partition("()")[2].startswith(" (pid="))
