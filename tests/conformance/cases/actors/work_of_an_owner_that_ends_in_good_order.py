"""What an actor has submitted is completed after the actor was dropped, has left, or could not be constructed."""

INIT = dict(num_cpus=8, resources={"slot": 1, "place": 1})


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0, max_concurrency=40)
    class Gate:
        def __init__(self):
            import threading
            self.opened, self.seen, self.changed = threading.Event(), [], threading.Condition()

        def enter(self, name):
            self.note(name + " began")
            self.opened.wait(60)

        def note(self, name):
            with self.changed:
                self.seen.append(name)
                self.changed.notify_all()

        def wait_for(self, *names):
            with self.changed:
                self.changed.wait_for(lambda: set(names) <= set(self.seen), 60)
                return sorted(set(names) & set(self.seen))

        def open(self):
            self.opened.set()

    @ray.remote(num_cpus=0)
    def work(gate, name, *args):
        ray.get(gate.enter.remote(name))
        ray.get(gate.note.remote(name))

    @ray.remote(num_cpus=0)
    class Log:
        def enter(self, gate, name):
            ray.get(gate.enter.remote(name))
            ray.get(gate.note.remote(name))

        def note(self, gate, name, *args):
            ray.get(gate.note.remote(name))

    def submit(gate, log, pending):
        running = work.remote(gate, "running task")
        work.options(resources={"slot": 1}).remote(gate, "queued task")
        work.remote(gate, "task with a missing argument", running)
        log.enter.remote(gate, "running call")
        for n in range(5):
            log.note.remote(gate, f"queued call {n}")
        log.note.remote(gate, "call with a missing argument", running)
        pending.note.remote(gate, "call of an actor to come")

    @ray.remote(num_cpus=0)
    class Owner:
        def submit(self, *args):
            submit(*args)

        def leave(self, how):
            if how == "exit_actor":
                ray.actor.exit_actor()
            raise SystemExit(int(how[-2]))

    @ray.remote(num_cpus=0)
    class Bad:
        def __init__(self, gate, log, pending):
            submit(gate, log, pending)
            ray.get(gate.wait_for.remote("running task began", "running call began"))
            raise ValueError("no")

        def ping(self):
            pass

    done = [
        "running task", "queued task", "task with a missing argument", "running call", "call with a missing argument",
        "call of an actor to come", *(f"queued call {n}" for n in range(5)),
    ]

    @ray.remote(num_cpus=0, resources={"slot": 1, "place": 1})
    def hold(gate):
        ray.get(gate.enter.remote("holder"))

    for how in "dropped", "exit_actor", "constructor":
        gate, log = Gate.remote(), Log.remote()
        holder = hold.remote(gate)
        ray.get(gate.wait_for.remote("holder began"))
        pending = Log.options(resources={"place": 1}).remote()
        if how == "constructor":
            owner = Bad.remote(gate, log, pending)
        else:
            owner = Owner.options(name=how).remote()
            ray.get(owner.submit.remote(gate, log, pending))
        ray.get(gate.wait_for.remote("running task began", "running call began"))
        ctx.show(how)
        if how == "dropped":
            del owner
            while True:
                try:
                    ray.get_actor(how)
                except ValueError:
                    break
        elif how == "terminate":
            ctx.raises(lambda: ray.get(owner.__ray_terminate__.remote()), "ActorUnavailableError", "ActorDiedError")
        elif how != "constructor":
            ctx.raises(lambda: ray.get(owner.leave.remote(how)), "ActorUnavailableError", "ActorDiedError")
        ray.get(gate.open.remote())
        ray.get(holder)
        ctx.show(sorted(done) == ray.get(gate.wait_for.remote(*done)))
        if how == "constructor":
            ctx.raises(lambda: ray.get(owner.ping.remote()), "ActorDiedError")
        ray.kill(pending)
