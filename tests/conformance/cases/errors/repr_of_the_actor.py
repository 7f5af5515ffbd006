"""The head of an actor's error shows the `repr` that the actor has at that moment, its own or the default one."""


def run(ctx):
    ray = ctx.ray

    class Plain:
        def __init__(self, state=""):
            self.state = state
            if state == "broken":
                raise ValueError

        def change(self, state):
            self.state = state

        def fail(self):
            raise ValueError

        def items(self):
            yield 1
            raise ValueError

    class Own(Plain):
        def __repr__(self):
            return f"Own({self.state})"

    @ray.remote
    class Async:
        async def fail(self):
            raise ValueError

    def head(ref):
        try:
            ray.get(ref)
        except Exception as error:
            (line,) = [line for line in str(error).splitlines() if "repr=" in line][:1]
            text = line.split("repr=")[1].split(" at 0x")[0].removesuffix(")")
            ctx.show(type(error).__name__, text.rpartition(".")[2])

    plain, own = ray.remote(Plain), ray.remote(Own)
    head(plain.remote().fail.remote())
    head(plain.remote("broken").fail.remote())
    head(Async.remote().fail.remote())
    _, error = plain.remote().items.remote()
    head(error)
    actor = own.remote("a")
    head(actor.fail.remote())
    ray.get(actor.change.remote("b"))
    head(actor.fail.remote())
    head(own.remote("broken").fail.remote())
