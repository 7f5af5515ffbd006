"""A call that names a concurrency group which the actor lacks ends the actor's process; so does a group of size 0 at its birth."""


def run(ctx):
    ray = ctx.ray

    class Worker:
        def __init__(self):
            self.count = 0

        def work(self):
            self.count += 1
            return self.count

    def settled(worker):
        while True:
            try:
                return ray.get(worker.work.remote())
            except ray.exceptions.ActorUnavailableError:
                pass

    once = ray.remote(concurrency_groups={"io": 1})(Worker).remote()
    ctx.show([ray.get(once.work.remote()), ray.get(once.work.options(concurrency_group="io").remote())])
    ctx.raises(lambda: ray.get(once.work.options(concurrency_group="disk").remote()), "ActorDiedError")
    ctx.raises(lambda: ray.get(once.work.remote()), "ActorDiedError")
    again = ray.remote(max_restarts=1)(Worker).remote()
    ctx.show(ray.get([again.work.remote(), again.work.remote()]))
    ctx.raises(lambda: ray.get(again.work.options(concurrency_group="io").remote()), "ActorDiedError", "ActorUnavailableError")
    ctx.show(settled(again))
    empty = ray.remote(concurrency_groups={"io": 0})(Worker).remote()
    ctx.raises(lambda: ray.get(empty.work.remote()), "ActorDiedError")
    for size in 1.9, True:
        ctx.show(ray.get(ray.remote(concurrency_groups={"io": size})(Worker).remote().work.remote()))
    for size in 2**32, -1, "one", None:
        ctx.raises(lambda: ray.remote(concurrency_groups={"io": size})(Worker).remote())
