"""An instance of RayError that is put, returned, yielded or passed counts as a failure; inside a list it is a value."""


def run(ctx):
    ray = ctx.ray
    X = ray.exceptions

    @ray.remote
    def give(kind):
        return make(kind)

    @ray.remote
    def give_in_list(kind):
        return [make(kind)]

    @ray.remote
    def take(x):
        return "took " + type(x).__name__

    @ray.remote(num_returns=2)
    def two(kind):
        return 1, make(kind)

    @ray.remote
    def stream(kind):
        yield 1
        yield make(kind)
        yield 3

    @ray.remote(num_cpus=0)
    class Giver:
        def give(self, kind):
            return make(kind)

    def make(kind):
        if kind == "task error":
            return X.RayTaskError("f", "text", ValueError("x"))
        return {
            "timeout": X.GetTimeoutError("t"),
            "base": X.RayError("r"),
            "plain": ValueError("v"),
            "class": X.RayError,
        }[kind]

    def of(ref):
        try:
            return type(ray.get(ref)).__name__
        except Exception as error:
            return "raises " + type(error).__name__

    giver = Giver.remote()
    for kind in ("timeout", "base", "task error", "plain", "class"):
        ctx.show(kind, "|", of(ray.put(make(kind))), "|", of(give.remote(kind)), "|", of(two.remote(kind)[1]))
        ctx.show(of(giver.give.remote(kind)), "|", type(ray.get(give_in_list.remote(kind))[0]).__name__)
        ctx.show([of(ref) for ref in stream.remote(kind)], len(ray.wait([give.remote(kind)])[0]))
        ctx.show(
            of(take.remote(make(kind))),
            "|",
            of(take.remote(give.remote(kind))),
            "|",
            of(take.remote(x=ray.put(make(kind)))),
        )
