"""A call through a weak handle is finished before its actor ends, although nobody holds the actor any longer."""


def run(ctx):
    import time

    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Box:
        def slow(self):
            time.sleep(0.5)
            return "slow"

    box = Box.options(name="box").remote()
    ray.get(box.slow.remote())
    weak = ray.get_actor("box")
    refs = [weak.slow.remote(), weak.slow.remote()]
    del box
    ctx.show(ray.get(refs))
    deadline = time.monotonic() + 20
    while "box" in ray.util.list_named_actors() and time.monotonic() < deadline:
        time.sleep(0.05)
    ctx.raises(lambda: ray.get(weak.slow.remote()), "ActorDiedError")
    again = Box.options(name="box").remote()
    ctx.show(ray.get(again.slow.remote()), again == weak)
