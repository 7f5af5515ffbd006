"""completed() of a stream fails with what ended its task from outside; what the generator itself raised is an item instead."""
import os

INIT = dict(num_cpus=2)


def run(ctx):
    ray = ctx.ray

    @ray.remote(max_retries=0)
    def stream(how):
        if how == "crash":
            os._exit(1)
        if how == "raise":
            raise KeyError(how)
        yield how

    @ray.remote
    def broken():
        raise ValueError("argument")

    @ray.remote(num_cpus=0)
    class Worker:
        def stream(self, how):
            if how == "leave":
                ray.actor.exit_actor()
            if how == "raise":
                raise KeyError(how)
            yield how

    def show(title, items):
        ctx.show(title)
        ctx.raises(lambda: ray.get(items.completed()), "ActorDiedError", "WorkerCrashedError", "TaskCancelledError", "ValueError")
        for ref in items:
            ctx.raises(lambda: ray.get(ref), "ActorDiedError", "WorkerCrashedError", "TaskCancelledError", "ValueError", "KeyError")

    for how in "fine", "raise", "crash":
        show(how, stream.remote(how))
    show("broken", stream.remote(broken.remote()))
    queued = stream.options(num_cpus=100).remote("fine")
    ray.cancel(queued)
    show("queued", queued)
    for how in "fine", "raise", "leave":
        show("actor " + how, Worker.remote().stream.remote(how))
