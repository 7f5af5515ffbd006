"""`dir` of an actor class lists the names of the plain class, and `dir` of a handle lists the methods that can be called."""


def run(ctx):
    ray = ctx.ray

    class Base:
        def inherited(self):
            pass

    @ray.remote
    class Many(Base):
        limit = 1

        @property
        def size(self):
            return 1

        @staticmethod
        def static():
            pass

        @classmethod
        def of_class(cls):
            pass

        def _private(self):
            pass

        async def coroutine(self):
            pass

        def items(self):
            yield 1

        def __len__(self):
            return 1

    ctx.show([name for name in dir(Many) if not name.startswith("_")], "_private" in dir(Many))
    many = Many.remote()
    ctx.show(dir(many))
    ctx.show([name for name in dir(many.items) if not name.startswith("_")])
    ctx.show([name for name in dir(Many.options(num_cpus=1)) if not name.startswith("_")])
