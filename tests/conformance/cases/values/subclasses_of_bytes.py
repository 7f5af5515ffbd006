"""An instance of a subclass of bytes arrives as plain bytes, unless it is inside another value."""


class Tagged(bytes):
    """Bytes with an attribute."""

    def __bytes__(self):
        return b"other"


def run(ctx):
    ray = ctx.ray
    value = Tagged(b"ab")
    value.tag = 1

    @ray.remote
    def look(value, inside=None):
        return type(value).__name__, value == b"ab", hasattr(value, "tag"), [type(v).__name__ for v in inside or ()]

    @ray.remote
    def make():
        return Tagged(b"ab")

    @ray.remote(num_returns=2)
    def make_two():
        return Tagged(b"ab"), [Tagged(b"ab")]

    @ray.remote
    def stream():
        yield Tagged(b"ab")

    @ray.remote
    class Keeper:
        def look(self, value, inside=None):
            return type(value).__name__, [type(v).__name__ for v in inside or ()]

        async def give(self):
            return Tagged(b"ab")

    keeper = Keeper.remote()
    ctx.show("argument", ray.get(look.remote(value)), ray.get(look.remote(value=value, inside=[value])))
    ctx.show("reference", ray.get(look.remote(ray.put(value), (value,))))
    ctx.show("actor", ray.get(keeper.look.remote(value, [value])), type(ray.get(keeper.give.remote())).__name__)
    ctx.show("result", type(ray.get(make.remote())).__name__)
    one, two = ray.get(make_two.remote())
    ctx.show("results", type(one).__name__, type(two[0]).__name__)
    ctx.show("yielded", [type(ray.get(ref)).__name__ for ref in stream.remote()])
    ctx.show("put", type(ray.get(ray.put(value))).__name__, type(ray.get(ray.put({"a": value}))["a"]).__name__)
    ctx.show("empty", ray.get(ray.put(Tagged())), type(ray.get(ray.put(Tagged()))).__name__)
