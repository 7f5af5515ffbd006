"""When an owner crashes, its tasks end, but calls that it has sent are completed (not those behind an unsent one)."""

INIT = dict(num_cpus=8)


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0, max_concurrency=40)
    class Gate:
        def __init__(self):
            import threading
            self.opened, self.seen, self.changed = threading.Event(), [], threading.Condition()

        def enter(self, name):
            with self.changed:
                self.seen.append(name)
                self.changed.notify_all()
            self.opened.wait(60)

        def wait_for(self, *names):
            with self.changed:
                self.changed.wait_for(lambda: set(names) <= set(self.seen), 60)

        def open(self):
            self.opened.set()

    @ray.remote(num_cpus=0)
    def work(gate, name, *args):
        ray.get(gate.enter.remote(name))

    @ray.remote(num_cpus=0)
    class Log:
        def __init__(self):
            self.rows = []

        def enter(self, gate):
            ray.get(gate.enter.remote("call"))
            self.rows.append("running call")

        def add(self, row, *args):
            self.rows.append(row)
            return row

        def get(self):
            return self.rows

    def submit(gate, log, other):
        running = work.remote(gate, "task")
        refs = [running, work.options(resources={"none": 1}).remote(gate, "queued")]
        refs.append(work.remote(gate, "dep", running))
        log.enter.remote(gate)
        refs += [log.add.remote(f"queued call {n}") for n in range(3)]
        refs.append(other.add.remote("call with a missing argument", running))
        refs.append(other.add.remote("call behind it"))
        return refs

    @ray.remote(num_cpus=0)
    class Owner:
        def submit(self, *args):
            self.refs = submit(*args)
            return self.refs

        def crash(self, code):
            import os
            os._exit(code)

    @ray.remote(num_cpus=0, max_retries=0)
    def owner_task(gate, log, other, box):
        ray.get(box.add.remote(submit(gate, log, other)))
        ray.get(gate.wait_for.remote("end"))
        raise SystemExit(0)

    for how in "kill", "os._exit(0)", "os._exit(1)", "SystemExit in a task", "cancel by force":
        ctx.show(how)
        gate, log, other, box = Gate.remote(), Log.remote(), Log.remote(), Log.remote()
        if "os" in how or how == "kill":
            owner = Owner.remote()
            refs = ray.get(owner.submit.remote(gate, log, other))
        else:
            task = owner_task.remote(gate, log, other, box)
            refs = []
            while not refs:
                refs = [ref for row in ray.get(box.get.remote()) for ref in row]
        ray.get(gate.wait_for.remote("task", "call"))
        if how == "kill":
            ray.kill(owner)
        elif "os" in how:
            ctx.raises(lambda: ray.get(owner.crash.remote(int(how[-2]))), "ActorDiedError")
        elif how == "cancel by force":
            ray.cancel(task, force=True, recursive=False)
            ctx.raises(lambda: ray.get(task), "TaskCancelledError", "WorkerCrashedError")
        else:
            gate.enter.remote("end")
            ctx.raises(lambda: ray.get(task), "WorkerCrashedError")
        for ref in refs:
            ctx.raises(lambda: ray.get(ref, timeout=60), "OwnerDiedError")
        ray.get(gate.open.remote())
        ctx.show(ray.get(log.get.remote()), ray.get(other.get.remote()))
