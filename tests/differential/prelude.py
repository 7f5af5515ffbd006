"""What every generated program starts with: how it shows an answer. Its text is run in the program's own `__main__`.

`show` writes one line. `answer(call)` writes what `call()` returned, or which error it raised. `describe(value)` is the text of
any value: the same on every run and on every machine, without ids, addresses or times. Tasks call it too, so it travels with
them by value, and imports what it needs inside.
"""


def describe(value, depth=4):
    """A value as text: its class, what is in it, and what is in that, up to a depth."""
    import dataclasses
    import enum
    import re
    import types

    def inner(part):
        return describe(part, depth - 1)

    def of_type(cls):
        module = str(getattr(cls, "__module__", None)).removeprefix("mini")
        return f"{cls.__qualname__}" if module in ("builtins", "__main__") else f"{module}.{cls.__qualname__}"

    cls = type(value)
    name = of_type(cls)
    module = str(getattr(cls, "__module__", "")).removeprefix("mini")
    if value is None or cls in (bool, int, float, complex, str, bytes, type(Ellipsis), type(NotImplemented)):
        text = repr(value)
        return text if len(text) < 200 else f"{name} of {len(text)} characters"
    if depth <= 0:
        return f"<{name}>"
    if isinstance(value, type):
        bases = ", ".join(of_type(base) for base in value.__mro__[1:-1])
        return f"class {of_type(value)}({bases})" + ("" if cls is type else f" of {name}")
    if module == "ray" or module.startswith("ray."):
        if isinstance(value, BaseException):
            cause = getattr(value, "cause", None)
            return f"<{name}>" + (f" because of {inner(cause)}" if isinstance(cause, Exception) else "")
        return f"<{cls.__name__}>"
    if name.startswith("ActorClass("):
        return f"<{name}>"
    if cls in (list, tuple):
        parts = ", ".join(map(inner, value))
        return f"[{parts}]" if cls is list else f"({parts}{',' * (len(value) == 1)})"
    if cls in (set, frozenset):
        return f"{name}{{{', '.join(sorted(map(inner, value)))}}}"
    if cls is dict:
        return "{" + ", ".join(f"{inner(key)}: {inner(item)}" for key, item in value.items()) + "}"
    if isinstance(value, BaseException):
        more = {key: item for key, item in vars(value).items() if key not in ("__notes__", "cause")}
        text = f"{name}({', '.join(map(inner, value.args))})" + (f" with {inner(more)}" if more else "")
        text += f" notes {value.__notes__}" if getattr(value, "__notes__", None) else ""
        text += f" cause {inner(value.__cause__)}" if value.__cause__ is not None else ""
        text += f" holds {inner(list(value.exceptions))}" if hasattr(value, "exceptions") else ""
        return text
    if isinstance(value, enum.Enum):
        return f"{value!s} of {name} = {inner(value.value)}, the member: {cls(value.value) is value}"
    if isinstance(value, (types.FunctionType, types.MethodType)):
        function = getattr(value, "__func__", value)
        of = f" of {inner(value.__self__)}" if isinstance(value, types.MethodType) else ""
        return (
            f"{name} {function.__qualname__}{of} defaults {inner(function.__defaults__)} {inner(function.__kwdefaults__)}"
            f" cells {len(function.__closure__ or ())} notes {sorted(function.__annotations__)} doc {function.__doc__!r}"
            f" more {inner(vars(function))}"
        )
    if isinstance(value, types.ModuleType):
        return f"module {value.__name__}"
    if isinstance(value, memoryview):
        return f"memoryview {bytes(value)!r} {value.format} {value.shape} read-only: {value.readonly}"
    if module == "numpy" and hasattr(value, "dtype"):
        flags = getattr(value, "flags", None)
        writeable = getattr(flags, "writeable", None)
        return f"{name} {value.dtype} {value.shape} {value.tolist()!r}"[:200] + f" writeable: {writeable}"
    state = dict(getattr(value, "__dict__", None) or {})
    for base in cls.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else tuple(slots):
            if slot.startswith("__") and not slot.endswith("__"):
                slot = f"_{base.__name__.lstrip('_')}{slot}"
            if slot not in ("__dict__", "__weakref__") and hasattr(value, slot):
                state[slot] = getattr(value, slot)
    text = name
    if cls.__repr__ is not object.__repr__ and not dataclasses.is_dataclass(value):
        text += " " + re.sub(r"0x[0-9a-f]+", "0x", repr(value)).replace("miniray", "ray")[:200]
    if state:
        text += "{" + ", ".join(f"{key}={inner(state[key])}" for key in sorted(state)) + "}"
    if isinstance(value, (list, tuple, dict, set)):
        text += f" holding {inner(dict(value) if isinstance(value, dict) else list(value))}"
    return text


def show(*things):
    """Write one line."""
    emit(" ".join(map(str, things)))


def answer(call):
    """Write what a call returns, or the classes of the error that it raises, with the user's own error behind it."""
    try:
        value = call()
    except Exception as error:
        emit("raises " + error_text(error))
        return None
    emit("returns " + describe(value))
    return value


def error_text(error):
    """The class of an error. One that crossed to another worker brings the error behind it."""
    name = type(error).__name__
    cause = getattr(error, "cause", None)
    return f"{name}: {describe(cause)}" if isinstance(cause, Exception) else name


def until(call, wanted, seconds=15):
    """What `call()` returns, asked until it is what is wanted: Ray's tables come a second late."""
    import threading
    import time

    deadline = time.monotonic() + seconds
    while (found := call()) != wanted and time.monotonic() < deadline:
        threading.Event().wait(0.2)
    return found


def emptied(pool):
    """Take what earlier calls have left in a pool: of those, a `map` drops what is not ready yet, and raises what is."""
    import contextlib

    for _ in range(20):
        if pool.has_next():
            with contextlib.suppress(Exception):
                pool.get_next_unordered(timeout=15)


def emit(line):
    """Where the lines go: the runner puts its own in place."""
    print(line)
