"""Classes of which `ray.remote` cannot make the two subclasses it needs, or an instance without arguments, are refused."""

import abc
import collections
import collections.abc
import dataclasses
import enum
import typing


class NeedsAnArgument:
    def __new__(cls, n):
        return super().__new__(cls)

    def __init__(self, n):
        self.n = n

    def value(self):
        return self.n


class NewWithDefault:
    def __new__(cls, n=5):
        made = super().__new__(cls)
        made.n = n
        return made

    def value(self):
        return self.n


class Elsewhere:
    def __new__(cls, *args):
        return "not an instance"


class NeedsKeyword:
    def __init_subclass__(cls, level, **kwargs):
        super().__init_subclass__(**kwargs)


class Sealed:
    def __init_subclass__(cls, **kwargs):
        raise RuntimeError("sealed")


class Colour(enum.Enum):
    RED = 1


class NoMembers(enum.Enum):
    def value_of(self):
        return 1


class Row(typing.NamedTuple):
    key: str
    value: int = 7


class Movie(typing.TypedDict):
    name: str


class NoSelf:
    def method():
        return 1


class NoSelfStatic:
    @staticmethod
    def method():
        return 1


class StarsOnly:
    def method(*args):
        return len(args)


class Watched:
    def __setattr__(self, name, value):
        raise RuntimeError("read-only")

    def value(self):
        return 1


class Meta(type):
    def __call__(cls, *args, **kwargs):
        raise RuntimeError("not to be called")


class Uncallable(metaclass=Meta):
    def value(self):
        return 1


class MetaRefuses(type):
    def __new__(meta, name, bases, space):
        if bases:
            raise TypeError("no subclasses")
        return super().__new__(meta, name, bases, space)


class NoSubclasses(metaclass=MetaRefuses):
    pass


@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 3

    def value(self):
        return self.n


@dataclasses.dataclass(frozen=True, slots=True)
class FrozenSlots:
    n: int = 3


@dataclasses.dataclass(slots=True)
class Slots:
    n: int = 3

    def value(self):
        return self.n


@dataclasses.dataclass(order=True)
class Ordered:
    n: int = 3

    def value(self):
        return self.n


class Mapped(collections.abc.Mapping):
    def __getitem__(self, key):
        return key

    def __iter__(self):
        return iter(())

    def __len__(self):
        return 0


class Queue(collections.deque):
    pass


class Listed(list):
    def total(self):
        return len(self)


class Users(collections.UserList):
    pass


class Words(collections.UserString):
    pass


class Counted(collections.Counter):
    pass


class Awaited(collections.abc.Awaitable):
    def __await__(self):
        yield


class Called(collections.abc.Callable):
    def __call__(self):
        return 1


class Hashed(collections.abc.Hashable):
    def __hash__(self):
        return 1


class Abstract(abc.ABC):
    @abc.abstractmethod
    def work(self): ...


class AbstractProperty(abc.ABC):
    @property
    @abc.abstractmethod
    def work(self): ...


class NoAbc:
    @abc.abstractmethod
    def work(self):
        return "worked"


class Runs(typing.Protocol):
    def value(self) -> int: ...


class Follows(Runs):
    def value(self) -> int:
        return 4


class Typed(typing.Generic[typing.TypeVar("T")]):
    def value(self):
        return 5


class Silent:
    def __getattribute__(self, name):
        if name.startswith("_"):
            return super().__getattribute__(name)
        raise AttributeError("silent")

    def value(self):
        return 6


class Answers:
    def __getattr__(self, name):
        return 7

    def value(self):
        return self.other


class Same:
    def __eq__(self, other):
        return True

    def value(self):
        return 8


class Fallen(KeyError):
    def value(self):
        return 9


class Gone:
    def __reduce__(self):
        raise RuntimeError("not to be sent")

    def value(self):
        return 10


class Gone2:
    def __getstate__(self):
        raise RuntimeError("not to be sent")

    def __reduce_ex__(self, protocol):
        raise RuntimeError("not to be sent")

    def value(self):
        return 11


def run(ctx):
    ray = ctx.ray

    def first_class(error):
        return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")

    for name, cls in list(globals().items()):
        if not isinstance(cls, type) or cls.__module__ != __name__ or issubclass(cls, type):
            continue
        try:
            remote = ray.remote(cls)
        except Exception as error:
            ctx.show(name, "refused", first_class(error))
            continue
        try:
            method = "value" if hasattr(cls, "value") else "__ray_ready__"
            answer = ray.get(getattr(remote.remote(), method).remote(), timeout=60)
        except Exception as error:
            answer = type(error).__name__ if "RayTaskError" not in type(error).__name__ else type(error.cause).__name__
        ctx.show(name, answer)
