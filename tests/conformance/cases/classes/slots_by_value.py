"""A class with `__slots__` that is sent by value: the copy keeps in a `__dict__` what the slots held."""

import dataclasses


class Plain:
    __slots__ = ("a", "b")

    def __init__(self, a=1, b=2):
        self.a, self.b = a, b

    def sum(self):
        return self.a + self.b


class Weak:
    __slots__ = ("a", "__weakref__", "__dict__")

    def __init__(self):
        self.a, self.more = 4, 5


class Child(Plain):
    __slots__ = ("c",)

    def __init__(self):
        super().__init__()
        self.c = 6


class WithDict(Plain):
    def __init__(self):
        super().__init__()
        self.more = 7


class Private:
    __slots__ = ("__x",)

    def __init__(self):
        self.__x = 8

    def get(self):
        return self.__x


class Documented:
    __slots__ = {"a": "documented"}

    def __init__(self):
        self.a = 9


class Iterated:
    __slots__ = iter(("a", "b"))

    def __init__(self):
        self.a = 10


class State:
    __slots__ = ("a",)

    def __init__(self):
        self.a = 11

    def __getstate__(self):
        return self.a

    def __setstate__(self, state):
        self.a = state


class Reduced:
    __slots__ = ("a",)

    def __init__(self, a=12):
        self.a = a

    def __reduce__(self):
        return Reduced, (self.a,)


class Text(str):
    __slots__ = ()


class Empty:
    __slots__ = ()


@dataclasses.dataclass(slots=True)
class Data:
    x: int = 13


@dataclasses.dataclass(frozen=True, slots=True)
class Frozen:
    x: int = 14


class Number(int):
    __slots__ = ()


class Failure(Exception):
    __slots__ = ("code",)

    def __init__(self, code=15):
        super().__init__(code)
        self.code = code


def run(ctx):
    ray = ctx.ray

    def outcome(call):
        try:
            return call()
        except Exception as error:
            return type(error).__name__.partition("(")[0]

    @ray.remote
    def look(value):
        names = ("a", "b", "c", "more", "x", "code")
        found = {name: getattr(value, name) for name in names if hasattr(value, name)}
        return found, hasattr(value, "__dict__"), type(value).__dict__.get("__slots__") is not None

    @ray.remote
    def echo(value):
        return value

    @ray.remote
    def add(value):
        value.new = 1
        return value.new

    @ray.remote
    def made(cls):
        value = cls()
        return hasattr(value, "__dict__"), type(vars(cls).get("a")).__name__

    for cls in (Plain, Weak, Child, WithDict, Private, Documented, Iterated, State, Reduced, Text, Empty, Data, Frozen, Number, Failure):
        value = cls()
        ctx.show(cls.__name__)
        ctx.show(outcome(lambda: ray.get(look.remote(value))))
        ctx.show(outcome(lambda: ray.get(made.remote(cls))), outcome(lambda: ray.get(add.remote(value))))
        ctx.show(outcome(lambda: type(ray.get(ray.put(value))).__name__))
        ctx.show(outcome(lambda: type(ray.get(echo.remote(value))).__name__))
        ctx.show(outcome(lambda: type(ray.get(ray.remote(lambda: cls()).remote())).__name__))

    class Holder:
        __slots__ = ("n",)

        def __init__(self):
            self.n = 0

        def add(self):
            self.n += 1
            self.other = 2
            return self.n, sorted(self.__dict__)

        def myself(self):
            return self

    actor = ray.remote(Holder).remote()
    ctx.show(outcome(lambda: ray.get([actor.add.remote(), actor.add.remote()])))
    ctx.show(outcome(lambda: type(ray.get(actor.myself.remote())).__name__))
