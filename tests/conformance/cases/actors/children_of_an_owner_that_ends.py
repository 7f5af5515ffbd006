"""An owner that drains waits for its own calls of its children, but not for the calls of others."""

INIT = dict(num_cpus=8)


def run(ctx):
    ray = ctx.ray
    util = ctx.sub("util")

    @ray.remote(num_cpus=0, max_concurrency=40)
    class Gate:
        def __init__(self):
            import threading
            self.opened, self.began = threading.Event(), threading.Semaphore(0)

        def enter(self):
            self.began.release()
            self.opened.wait(60)

        def wait_began(self):
            self.began.acquire(timeout=60)

        def open(self):
            self.opened.set()

    @ray.remote(num_cpus=0)
    class Child:
        def enter(self, gate):
            ray.get(gate.enter.remote())
            return "entered"

        def ping(self):
            return "pong"

    @ray.remote(num_cpus=0)
    class Owner:
        def go(self, first, second):
            self.called, self.other = Child.options(name="called").remote(), Child.options(name="other").remote()
            self.detached = Child.options(name="detached", lifetime="detached").remote()
            self.group = util.placement_group([{"CPU": 1}])
            ray.get([self.other.ping.remote(), self.detached.ping.remote(), self.group.ready()])
            return [self.called.enter.remote(first)], self.called, self.other, self.group

        def leave(self):
            ray.actor.exit_actor()

    first, second, owner = Gate.remote(), Gate.remote(), Owner.remote()
    (own,), called, other, group = ray.get(owner.go.remote(first, second))
    ray.get(first.wait_began.remote())
    theirs = other.enter.remote(second)
    ray.get(second.wait_began.remote())
    ctx.raises(lambda: ray.get(owner.leave.remote()), "ActorUnavailableError")
    ctx.show(len(ray.wait([own, theirs], timeout=0.5)[0]))
    ray.get(first.open.remote())
    ctx.show(ray.get(own))
    ctx.raises(lambda: ray.get(theirs), "ActorDiedError")
    for child in called, other:
        ctx.raises(lambda: ray.get(child.ping.remote()), "ActorDiedError")
    for name in "called", "other", "detached":
        try:
            ctx.show(name, ray.get(ray.get_actor(name).ping.remote()))
        except ValueError:
            ctx.show(name, "is gone")
    ctx.show(util.placement_group_table(group)["state"])
    ray.kill(ray.get_actor("detached"))
