"""Which values of an owner can still be read while it drains, after it has drained, and after it has crashed."""

INIT = dict(num_cpus=8)


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0, max_concurrency=40)
    class Gate:
        def __init__(self):
            import threading
            self.opened = threading.Event()

        def enter(self):
            self.opened.wait(60)

        def open(self):
            self.opened.set()

    @ray.remote(num_cpus=0)
    def make(size, gate=None):
        if gate is not None:
            ray.get(gate.enter.remote())
        return b"x" * size

    @ray.remote(num_cpus=0)
    class Owner:
        def go(self, gate):
            small, large = make.remote(10), make.remote(300_000)
            ray.wait([small, large], num_returns=2)
            return [ray.put(b"x" * 10), ray.put(b"x" * 300_000), small, large,
                    make.remote(10, gate), make.remote(300_000, gate)]

        def leave(self):
            ray.actor.exit_actor()

        def ping(self):
            pass

    names = ["put small", "put large", "small", "large", "unfinished small", "unfinished large"]

    def read(refs):
        for name, ref in zip(names, refs):
            ctx.show("  ", name, len(ray.get(ref, timeout=60)))

    def lose(refs, *lost):
        """For about a second after the end of an owner, Ray may still find a value of its."""
        for name, ref in zip(names, refs):
            while name in lost:
                try:
                    ray.get(ref, timeout=60)
                except ray.exceptions.OwnerDiedError:
                    ctx.show("  ", name, "OwnerDiedError")
                    break

    def until_dead(owner):
        while True:
            try:
                ray.get(owner.ping.remote())
            except ray.exceptions.ActorDiedError:
                return
            except ray.exceptions.ActorUnavailableError:
                pass

    gate, owner = Gate.remote(), Owner.remote()
    refs = ray.get(owner.go.remote(gate))
    ctx.raises(lambda: ray.get(owner.leave.remote()), "ActorUnavailableError")
    ctx.show("while it drains")
    read(refs[:4])
    ctx.show(len(ray.wait(refs[4:], timeout=0)[0]))
    ray.get(gate.open.remote())
    until_dead(owner)
    ctx.show("after the drain")
    lose(refs, "put small", "put large", "large", "unfinished large")
    ctx.show(len(ray.get(refs[2])), len(ray.get(refs[4])))

    gate, owner = Gate.remote(), Owner.remote()
    refs = ray.get(owner.go.remote(gate))
    ray.kill(owner)
    until_dead(owner)
    ctx.show("after a crash")
    lose(refs, "put small", "put large", "large", "unfinished small", "unfinished large")
    ctx.show(len(ray.get(refs[2])))
