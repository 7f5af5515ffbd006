"""`atexit` in an actor: its functions run, the last first, when it ends in order, and not when it is killed or crashes."""

import os
import sys
import tempfile
import time


def run(ctx):
    ray = ctx.ray
    folder = tempfile.mkdtemp()

    class Registers:
        def __init__(self, name):
            import atexit
            path = os.path.join(folder, name)

            def note(text):
                with open(path, "a") as file:
                    file.write(text)

            def never():
                note("never")

            atexit.register(note, "first registered.")
            atexit.register(never)
            atexit.register(note, text="last registered, ")
            atexit.unregister(never)
            ctx_or_none = atexit.register(note, "")
            self.same = ctx_or_none is note
            if name == "fails":
                raise ValueError(name)

        def ready(self):
            return self.same

        def leave(self, how):
            if how == "exit_actor":
                ray.actor.exit_actor()
            if how == "SystemExit(0)":
                sys.exit(0)
            if how == "SystemExit(1)":
                sys.exit(1)
            os._exit(1)

    Plain = ray.remote(num_cpus=0)(Registers)

    def written(name):
        path = os.path.join(folder, name)
        end = time.monotonic() + 20
        text = ""
        while not text.endswith("first registered.") and time.monotonic() < end:
            time.sleep(0.05)
            text = open(path).read() if os.path.exists(path) else ""
        return text or "nothing"

    ways = ["exit_actor", "SystemExit(0)", "SystemExit(1)"]
    for threads in (1, 3):
        for way in ways:
            name = f"{way} {threads}"
            actor = Plain.options(max_concurrency=threads).remote(name)
            ctx.show(name, ray.get(actor.ready.remote()))
            ctx.raises(lambda: ray.get(actor.leave.remote(way)), "ActorDiedError")
            ctx.show(written(name))
        for way in ("terminate", "dropped"):
            name = f"{way} {threads}"
            actor = Plain.options(max_concurrency=threads).remote(name)
            ray.get(actor.ready.remote())
            if way == "terminate":
                actor.__ray_terminate__.remote()
            del actor
            ctx.show(name, written(name))
    ctx.raises(lambda: ray.get(Plain.remote("fails").ready.remote()), "ActorDiedError")
    ctx.show("fails", written("fails"))
    killed, crashed = Plain.remote("killed"), Plain.remote("crashed")
    ray.get([killed.ready.remote(), crashed.ready.remote()])
    ray.kill(killed)
    ctx.raises(lambda: ray.get(crashed.leave.remote("os._exit")), "ActorDiedError")
    ctx.raises(lambda: ray.get(killed.ready.remote()), "ActorDiedError")
    time.sleep(1)
    ctx.show(sorted(set(os.listdir(folder)) & {"killed", "crashed"}))

    @ray.remote(max_calls=1)
    def task(name):
        Registers(name)

    ray.get(task.remote("task"))
    ctx.show("task", written("task"))
