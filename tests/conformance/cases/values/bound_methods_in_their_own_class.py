"""A class that is sent by value and holds bound methods of its own, in every place where it can hold them."""

import functools
import operator
import types


class Reg:
    limit = 10
    handlers = []
    table = {}

    @classmethod
    def small(cls, n):
        return n < cls.limit, cls.__name__

    @classmethod
    def make(cls):
        return cls()

    @staticmethod
    def twice(n):
        return n * 2

    def method(self, n):
        return n + self.limit

    def __len__(self):
        return self.limit


Reg.check = Reg.small
Reg.table["small"] = Reg.small
Reg.handlers.append(functools.partial(Reg.small, 5))
Reg.handlers.append((Reg.small, [Reg.make]))
Reg.instance = Reg()
Reg.bound = Reg.instance.method
Reg.dunder = Reg.instance.__len__
Reg.of_static = staticmethod(Reg.twice)
Reg.default = lambda self, call=Reg.small: call(3)
Reg.prop = property(lambda self: Reg.small(99))
Reg.maker = operator.methodcaller("small", 4)


class Meta(type):
    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return f"meta {name}"

    def of_meta(cls, n):
        return cls.__name__, n


class WithMeta(metaclass=Meta):
    @classmethod
    def small(cls, n):
        return n, cls.__name__


WithMeta.check = WithMeta.small
WithMeta.through = WithMeta.of_meta


class Sub(Reg):
    limit = 3

    @classmethod
    def small(cls, n):
        return ("sub", *super().small(n))


Sub.parent = super(Sub, Sub).small
Sub.own = Sub.small
Sub.inherited = Sub.make


class Slots:
    __slots__ = ("call",)

    def __init__(self):
        self.call = self.seven

    def seven(self):
        return 7


class Private:
    def __init__(self):
        self.call = self.__hidden

    def __hidden(self):
        return "hidden"


class Shadowed:
    def work(self):
        return "class"


shadowed = Shadowed()
shadowed.work = types.MethodType(lambda self: "own", shadowed)
Shadowed.kept = Shadowed().work


class Parent:
    child = None

    @classmethod
    def name(cls):
        return cls.__name__


class Child(Parent):
    pass


Parent.child = Child.name
Parent.cycle = [Parent.name, Child.name, Child]


class Registered:
    registry = []

    def first(self):
        return "first"


Registered.registry.append(Registered.first)
Registered.registry.append(Registered().first)


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def look(cls):
        partial, pair = cls.handlers[:2]
        return (
            cls.check(5),
            cls.table["small"](50),
            partial(),
            pair[0](1),
            type(pair[1][0]()).__name__,
            cls.bound(1),
            cls.dunder(),
            cls.of_static(4),
            cls().default(),
            cls().prop,
            cls.maker(cls),
        )

    ctx.raises(lambda: ray.get(look.remote(Reg)))
    ctx.raises(lambda: ray.get(look.remote(Sub)))

    @ray.remote
    def call(function, *args):
        return function(*args)

    for name, function, *args in (
        ("class method", Reg.small, 1),
        ("overridden", Sub.small, 2),
        ("super", super(Sub, Sub).small, 2),
        ("of an instance", Reg().method, 2),
        ("super of an instance", super(Sub, Sub()).method, 2),
        ("of a metaclass", WithMeta.of_meta, 3),
        ("with a metaclass", WithMeta.small, 3),
        ("of a slotted instance", Slots().call),
        ("private", Private().call),
        ("shadowed", shadowed.work),
        ("of a child", Parent.child),
        ("free", types.MethodType(lambda self, n: self + n, 3), 4),
        ("of a builtin", [3, 1].__len__),
        ("class method of a builtin", dict.fromkeys, "a"),
        ("bound to a string", "a-b".split, "-"),
    ):
        ctx.show(name)
        ctx.raises(lambda: ray.get(call.remote(function, *args)))
    ctx.raises(lambda: type(ray.get(call.remote(Sub.make))).__name__)
    ctx.raises(lambda: ray.get(call.remote(lambda: (WithMeta.check(1), WithMeta.through(2), WithMeta.unknown))))
    ctx.raises(lambda: ray.get(call.remote(lambda: (Sub.parent(1), Sub.own(1), type(Sub.inherited()).__name__))))
    ctx.raises(lambda: ray.get(call.remote(lambda: [c() for c in Parent.cycle[:2]] + [Parent.cycle[2].__name__])))
    ctx.raises(lambda: ray.get(call.remote(lambda: (Registered.registry[0](None), Registered.registry[1]()))))
    ctx.raises(lambda: ray.get(call.remote(lambda: Shadowed.kept())))

    @ray.remote
    class Actor:
        def __init__(self, cls):
            self.cls = cls

        def look(self):
            return self.cls.check(1), self.cls.bound(2), self.cls.table["small"](3)

        def change(self):
            self.cls.limit = 0
            return self.cls.check(1), self.cls.bound(2)

    actor = Actor.remote(Reg)
    ctx.raises(lambda: ray.get([actor.look.remote(), actor.change.remote(), actor.look.remote()]))
    ctx.raises(lambda: ray.get(ray.remote(Sub).remote().method.remote(1)))
    ctx.raises(lambda: ray.get(ray.remote(Sub).remote().own.remote(1)))
    ctx.raises(lambda: ray.get(ray.remote(Reg).remote().check.remote(1)))
    ctx.raises(lambda: ray.get(ray.put(Reg.small))(1))
    ctx.raises(lambda: ray.get(ray.put(Reg.instance)).bound(1))
    ctx.raises(lambda: type(ray.get(call.remote(Reg.make))).__name__)
    back = ray.get(call.remote(lambda: Reg.small))
    ctx.show(back.__self__ is Reg, back(3))
