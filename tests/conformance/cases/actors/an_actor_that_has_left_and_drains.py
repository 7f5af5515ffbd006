"""An actor that ended itself lives until its work and its running calls are over, and runs no other call."""

INIT = dict(num_cpus=8)


def run(ctx):
    ray = ctx.ray

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
    def work(gate):
        ray.get(gate.enter.remote())
        return "worked"

    @ray.remote(num_cpus=0)
    class Owner:
        def go(self, gate):
            self.ref = work.remote(gate)
            return [self.ref]

        def enter(self, gate):
            ray.get(gate.enter.remote())
            return "entered"

        def leave(self, how):
            if how == "exit_actor":
                ray.actor.exit_actor()
            raise SystemExit(how)

        def ping(self):
            return "pong"

    for name, (how, options) in zip("abcdef", (
        ("exit_actor", {}),
        ("exit_actor", {"max_restarts": 1}),
        ("exit_actor", {"max_restarts": 1, "max_task_retries": -1}),
        (0, {"max_restarts": 1}),
        (1, {"max_restarts": 1}),
        (1, {}),
    )):
        ctx.show(how, options)
        gate, owner = Gate.remote(), Owner.options(name=name, **options).remote()
        ref, = ray.get(owner.go.remote(gate))
        ray.get(gate.wait_began.remote())
        leaving, behind = owner.leave.remote(how), owner.ping.remote()
        if "max_task_retries" not in options:
            ctx.raises(lambda: ray.get(leaving), "ActorUnavailableError")
        ctx.show(ray.get_actor(name) == owner)
        late = owner.ping.remote()
        ctx.show(len(ray.wait([behind, late, ref], timeout=0.5)[0]))
        ray.get(gate.open.remote())
        ctx.show(ray.get(ref))
        for call in behind, late:
            ctx.raises(lambda: ray.get(call), "ActorDiedError", "ActorUnavailableError")
        if how == 1 and options:
            while True:
                try:
                    ctx.show(ray.get(owner.ping.remote()))
                    break
                except ray.exceptions.ActorUnavailableError:
                    pass
            ray.kill(owner)
        else:
            ctx.raises(lambda: ray.get(leaving), "ActorUnavailableError", "ActorDiedError")

    ctx.show("other calls that run")
    gate, owner = Gate.remote(), Owner.options(max_concurrency=2).remote()
    running = owner.enter.remote(gate)
    ray.get(gate.wait_began.remote())
    ctx.raises(lambda: ray.get(owner.leave.remote("exit_actor")), "ActorUnavailableError")
    ray.get(gate.open.remote())
    ctx.show(ray.get(running))
    ctx.raises(lambda: ray.get(owner.ping.remote()), "ActorDiedError")

    ctx.show("killed while it drains")
    gate, owner = Gate.remote(), Owner.remote()
    ref, = ray.get(owner.go.remote(gate))
    ray.get(gate.wait_began.remote())
    ctx.raises(lambda: ray.get(owner.leave.remote("exit_actor")), "ActorUnavailableError")
    ray.kill(owner)
    ctx.raises(lambda: ray.get(ref, timeout=60), "OwnerDiedError")
