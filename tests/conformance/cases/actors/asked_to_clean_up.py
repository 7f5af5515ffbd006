"""An actor that ends in order is asked to clean up by its __ray_shutdown__; one that is killed or crashes is not."""
import gc
import os
import sys


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Notes:
        def __init__(self):
            self.lines = []

        def add(self, line):
            self.lines.append(line)

        def read(self):
            lines, self.lines = self.lines, []
            return lines

    class Worker:
        def __init__(self, notes, how):
            self.notes = notes
            if how == "fails":
                raise ValueError(how)

        def __ray_shutdown__(self):
            ray.get(self.notes.add.remote("cleaned up"))
            raise RuntimeError("only logged")

        def end(self, how):
            if how == "leave":
                ray.actor.exit_actor()
            if how == "crash":
                os._exit(1)
            sys.exit(how)

    notes = Notes.remote()

    def show(how, wanted):
        import time
        for _ in range(100 if wanted else 10):
            lines = ray.get(notes.read.remote())
            if lines:
                break
            time.sleep(0.1 if wanted else 0.01)
        ctx.show(how, lines)

    for how in "leave", 0, 1, "crash":
        worker = ray.remote(num_cpus=0)(Worker).remote(notes, how)
        ctx.raises(lambda: ray.get(worker.end.remote(how)), "ActorDiedError")
        show(how, how != "crash")
    worker = ray.remote(num_cpus=0)(Worker).remote(notes, "kill")
    ray.get(worker.__ray_ready__.remote())
    ray.kill(worker)
    ctx.raises(lambda: ray.get(worker.end.remote(0)), "ActorDiedError")
    show("kill", False)
    worker = ray.remote(num_cpus=0)(Worker).remote(notes, "fails")
    ctx.raises(lambda: ray.get(worker.end.remote(0)), "ActorDiedError")
    show("fails", True)
    worker = ray.remote(num_cpus=0)(Worker).remote(notes, "terminate")
    worker.__ray_terminate__.remote()
    show("terminate", True)
    worker = ray.remote(num_cpus=0)(Worker).remote(notes, "let go")
    ray.get(worker.__ray_ready__.remote())
    del worker
    gc.collect()
    show("let go", True)
