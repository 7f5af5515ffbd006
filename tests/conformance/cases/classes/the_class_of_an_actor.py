"""An actor is an instance of a subclass of its class, which `ray.remote` makes; the actor class is an instance of one too."""


class Base:
    """Documented."""

    made = 0
    names = []

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.names.append(cls.__name__)


class Point(Base):
    """A point."""

    def __init__(self, x=0):
        self.x = x
        type(self).made += 1

    def facts(self):
        cls = type(self)
        names = [c.__name__ for c in cls.__mro__]
        return names, cls.__doc__, cls.__qualname__, cls is Point, isinstance(self, Point), issubclass(cls, Point)

    def counts(self):
        return type(self).made, Point.made, Base.made, sorted(vars(self)), self.__class__.__bases__ == (Point,)

    def itself(self):
        return self

    def kind(self):
        return type(self)

    @property
    def double(self):
        return self.x * 2

    @classmethod
    def name_of_class(cls):
        return cls.__name__

    @classmethod
    def make(cls, x):
        return cls(x)

    @staticmethod
    def one():
        return 1

    def __len__(self):
        return 3

    def __contains__(self, x):
        return x == 3

    def __getitem__(self, i):
        return i * 2


def run(ctx):
    ray = ctx.ray
    before = len(Base.names)
    Remote = ray.remote(Point)
    ctx.show(Base.names[before:])
    actor = Remote.remote(4)
    for part in ray.get([actor.facts.remote(), actor.counts.remote(), actor.name_of_class.remote()]):
        ctx.show(part)
    ctx.show(Remote.__ray_actor_class__ is Point, Remote.__ray_metadata__.modified_class is not Point)
    ctx.show(Remote.__ray_metadata__.class_name, Remote.__ray_metadata__.modified_class.__mro__[1] is Point)
    ctx.show(isinstance(Remote, Point), isinstance(Remote, Remote.__ray_metadata__.modified_class), [c.__name__ for c in type(Remote).__mro__ if c.__name__ != "Generic"])
    ctx.show(Remote.name_of_class(), Remote.one(), Remote.made, hasattr(Remote, "x"), hasattr(Remote, "double"))
    made = Remote.make(7)
    ctx.show(type(made).__name__, made.x, made is Remote, made.made, Remote.made, Point.made)
    ctx.show(type(Remote.facts).__name__, Remote.facts.__self__ is Remote)
    ctx.raises(lambda: Remote.facts()[3:])
    ctx.raises(lambda: Remote.double, "AttributeError")
    ctx.raises(lambda: len(Remote))
    ctx.raises(lambda: (3 in Remote, 4 in Remote))
    ctx.raises(lambda: Remote[4])
    ctx.raises(lambda: bool(Remote))
    Remote.made = 50
    ctx.show(Remote.made, Point.made, ray.get(Remote.remote().counts.remote()))
    Point.made = 9
    ctx.show(ray.get(ray.remote(Point).remote().counts.remote())[:3])

    @ray.remote
    def inside(remote):
        there = remote.__ray_actor_class__
        return (
            remote.name_of_class(),
            remote.one(),
            isinstance(remote, there),
            type(remote).__name__,
            type(remote.make(5)).__name__,
            ray.get(remote.remote(3).counts.remote()),
        )

    ctx.show(ray.get(inside.remote(Remote)))
    back = ray.get(actor.itself.remote())
    ctx.show(type(back).__name__, type(back).__qualname__, isinstance(back, Point), type(back) is Point, back.x)
    kind = ray.get(actor.kind.remote())
    ctx.show(kind is type(back), kind.__bases__ == (Point,), kind.__ray_actor_class__ is Point)
    actor.x = 5
    ctx.show(actor.x, ray.get(actor.itself.remote()).x)
