"""A constructor that returns something is an error of the actor; the built-in methods check their arguments at the call."""


def run(ctx):
    ray = ctx.ray

    class Odd:
        def __init__(self):
            return 5                                                    # noqa: PLE0101

        def ping(self):
            return "pong"

    odd = ray.remote(Odd).remote()
    error = ctx.raises(lambda: ray.get(odd.ping.remote()), "ActorDiedError")
    ctx.show("TypeError" in str(error), error.actor_init_failed)

    @ray.remote
    class Fine:
        def __init__(self):
            self.value = 3

    fine = Fine.remote()
    ctx.raises(lambda: fine.__ray_call__.remote())
    ctx.raises(lambda: fine.__ray_ready__.remote(1))
    ctx.raises(lambda: fine.__ray_terminate__.remote(1))
    ctx.show(ray.get(fine.__ray_call__.remote(lambda self, x, y=1: (self.value, x, y), 2, y=4)))
    ctx.show(ray.get(fine.__ray_call__.options(num_returns=2).remote(lambda self: (self.value, "two"))))
    ctx.raises(lambda: ray.get(fine.__ray_call__.remote(5)), "RayTaskError")
    ctx.show(ray.get(fine.__ray_ready__.remote()))
