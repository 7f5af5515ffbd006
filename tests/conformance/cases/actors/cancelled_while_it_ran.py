"""A running method that is cancelled goes on, is told by is_canceled(), and ends in TaskCancelledError whatever it returns."""


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0, max_concurrency=2)
    class Gate:
        def __init__(self):
            import threading
            self.started = threading.Event()

        def start(self):
            self.started.set()

        def wait(self):
            return self.started.wait(60)

    @ray.remote(num_cpus=0)
    class Worker:
        def work(self, gate, end):
            import time
            gate.start.remote()  # without a get: a cancelled call is interrupted in `get`
            while not ray.get_runtime_context().is_canceled():
                time.sleep(0.01)
            self.seen = end
            if end == "raises":
                raise KeyError(end)
            return end, end

        def saw(self):
            return self.seen, ray.get_runtime_context().is_canceled()

    worker = Worker.remote()
    for end in "returns", "raises":
        gate = Gate.remote()
        refs = worker.work.options(num_returns=2).remote(gate, end)
        ray.get(gate.wait.remote())
        ctx.show(end, ray.cancel(refs[0], recursive=False))
        for ref in refs:
            error = ctx.raises(lambda: ray.get(ref), "RayTaskError", "TaskCancelledError")
            ctx.show(isinstance(error, KeyError))
        ctx.show(ray.get(worker.saw.remote()))
    ctx.raises(lambda: ray.get_runtime_context().is_canceled(), "RuntimeError")
