"""A remote function or an actor class comes as a whole: if it refers to a value that cannot be rebuilt, so does what holds it."""


class Pair(Exception):
    """Its arguments are not in `args`, so that its pickle cannot be loaded."""

    def __init__(self, a, b):
        super().__init__(f"{a}{b}")


def run(ctx):
    ray = ctx.ray
    bad = Pair(1, 2)

    @ray.remote(max_retries=0)
    def inner(x=None):
        raise bad

    @ray.remote(max_retries=0)
    def calls(x=None):
        return inner.remote(x)

    @ray.remote(max_retries=0)
    def mentions(x=None):
        return inner and 1

    @ray.remote(max_retries=0)
    def mentions_what_mentions(x=None):
        return mentions and 1

    @ray.remote(max_retries=0)
    def itself(depth=2):
        return bad if depth < 0 else itself.remote(depth - 1)

    @ray.remote(max_retries=0)
    def take(thing):
        return 1

    @ray.remote
    class In:
        held = bad

        def one(self):
            return 1

    @ray.remote(max_retries=0)
    def makes():
        return In.remote() and 1

    @ray.remote
    class Out:
        def one(self, x=None):
            return 1 if inner else 0

    @ray.remote
    class Plain:
        def one(self, x=None):
            return 1

    for name, call in {
        "called": lambda: inner.remote(),
        "called inside": lambda: calls.remote(),
        "mentioned": lambda: mentions.remote(),
        "mentioned inside": lambda: mentions_what_mentions.remote(),
        "itself": lambda: itself.remote(),
        "argument": lambda: take.remote(inner),
        "in a list": lambda: take.remote([inner]),
        "with options": lambda: take.remote(inner.options(num_cpus=0)),
        "in a method": lambda: Out.remote().one.remote(),
        "to a method": lambda: Plain.remote().one.remote(inner),
        "put": lambda: ray.put(inner),
        "class called inside": lambda: makes.remote(),
        "class as argument": lambda: take.remote(In),
        "class in a list": lambda: take.remote([In]),
        "class to a method": lambda: Plain.remote().one.remote(In),
        "class put": lambda: ray.put([In]),
    }.items():
        try:
            ctx.show(name, ray.get(call()))
        except Exception as error:
            ctx.show(name, type(error).__name__, "failed to import on the worker" in str(error), str(error).splitlines()[-1])
    for thing in inner, In:
        ctx.raises(lambda: ray.cloudpickle.loads(ray.cloudpickle.dumps(thing)))
