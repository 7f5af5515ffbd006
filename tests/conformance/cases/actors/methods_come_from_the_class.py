"""A call runs the method that the class had when the actor was created; attributes of the instance do not hide it."""


def run(ctx):
    ray = ctx.ray

    class Descriptor:
        def __get__(self, instance, owner=None):
            return lambda *args: ("descriptor", len(args))

    def logged(function):
        def wrapper(self, *args):
            return "logged", function(self, *args)

        return wrapper

    class Base:
        def inherited(self):
            return "inherited"

        def over(self):
            return "base"

    @ray.remote
    class Light(Base):
        described = Descriptor()
        short = lambda self, *args: ("short", len(args))

        def __init__(self):
            self.on = False
            self.hook = lambda: "the instance's"
            type(self).changed_in_init = lambda self: "changed"

        def on(self):
            return "on", self.on

        def hook(self):
            return "method", self.hook()

        def over(self):
            return "over " + super().over()

        @staticmethod
        def static(*args):
            return "static", len(args)

        @classmethod
        def of_class(cls, *args):
            return cls.__name__, len(args)

        @logged
        def wrapped(self, *args):
            return len(args)

        def add(self, number):
            return number

        def seven(self, number=7):
            return self.add(number)

        def changed_in_init(self):
            return "as defined"

        def target(self):
            return "as defined"

        def call_target(self):
            return self.target()

        def patch(self):
            type(self).target = lambda self: "patched"
            self.static = self.of_class = self.wrapped = lambda *args: "the instance's"

        def deleted(self):
            return "still here"

        def delete(self):
            del type(self).deleted

        def become(self):
            class Other(type(self)):
                def over(self):
                    return "other"

            self.__class__ = Other

        def __len__(self):
            return 3

        def __call__(self):
            return "called"

        def __getattr__(self, name):
            return lambda *args: "from __getattr__"

        def __ray_ready__(self):
            return "own"

    light = Light.remote()
    for name in ("on", "hook", "inherited", "over", "described", "short", "__len__", "__call__", "changed_in_init"):
        ctx.show(name, ray.get(getattr(light, name).remote()))
    for name in ("static", "of_class", "wrapped"):
        ctx.show(name, ray.get(getattr(light, name).remote()), ray.get(getattr(light, name).remote(1, 2)))
    ctx.show(ray.get([light.seven.remote(), light.__ray_ready__.remote()]))
    ray.get([light.patch.remote(), light.delete.remote(), light.become.remote()])
    for name in ("target", "call_target", "deleted", "static", "of_class", "wrapped", "over"):
        ctx.show(name, ray.get(getattr(light, name).remote()))
    ctx.raises(lambda: light.unknown, "AttributeError")
    ctx.show(ray.get(Light.remote().target.remote()))

    @ray.remote(max_restarts=1, max_task_retries=1)
    class Async:
        def __init__(self):
            self.io = self.plain = self.items = 0

        async def io(self):
            return "io", self.io

        def plain(self):
            return "plain", self.plain

        async def items(self):
            yield "item"

        async def patch(self):
            async def other(self):
                return "other"

            type(self).io = type(self).plain = other

    actor = Async.remote()
    for _ in range(2):
        ctx.show(ray.get([actor.io.remote(), actor.plain.remote()]))
        ctx.show([ray.get(ref) for ref in actor.items.remote()])
        ray.get(actor.patch.remote())
