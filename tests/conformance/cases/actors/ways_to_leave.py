"""sys.exit(0) in a method is the actor's wish to end; any other code, and None, is a crash, after which it may restart."""
import os
import sys


def run(ctx):
    ray = ctx.ray

    class Worker:
        def ping(self):
            return "pong"

        def leave(self, code):
            sys.exit(code)

        def crash(self, code):
            os._exit(code)

        def interrupt(self):
            raise KeyboardInterrupt("by hand")

    def settled(worker):
        while True:
            try:
                return ray.get(worker.ping.remote())
            except ray.exceptions.ActorDiedError:
                return "dead"
            except ray.exceptions.ActorUnavailableError:
                pass

    for restarts in 0, 1:
        for how, *code in ("leave", 0), ("leave", 1), ("leave", None), ("leave", "text"), ("crash", 0), ("interrupt",):
            worker = ray.remote(max_restarts=restarts, num_cpus=0)(Worker).remote()
            ray.get(worker.ping.remote())
            ctx.show(restarts, how, *code)
            ctx.raises(lambda: ray.get(getattr(worker, how).remote(*code)), "ActorDiedError", "ActorUnavailableError",
                       "TaskCancelledError")
            ctx.show(settled(worker))
