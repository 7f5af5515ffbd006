"""A cancelled call of an async actor ends in TaskCancelledError, also when it catches its CancelledError or never awaits."""


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Worker:
        async def work(self, how):
            import asyncio
            self.running = asyncio.Event() if not hasattr(self, "running") else self.running
            self.running.set()
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                if how == "raises":
                    raise ValueError(how)
                if how == "passes it on":
                    raise
            finally:
                self.last = how
            return how

        async def started(self):
            import asyncio
            self.running = asyncio.Event() if not hasattr(self, "running") else self.running
            await self.running.wait()
            self.running.clear()

        async def ended(self):
            return self.last

    worker = Worker.remote()
    for how in "returns", "raises", "passes it on":
        call = worker.work.remote(how)
        ray.get(worker.started.remote())
        ctx.show(ray.cancel(call))
        error = ctx.raises(lambda: ray.get(call), "TaskCancelledError")
        ctx.show(isinstance(error, ray.exceptions.RayTaskError), isinstance(error, ValueError))
        ctx.show(ray.get(worker.ended.remote()))
    ctx.show(ray.cancel(call))
    call = worker.work.remote("force")
    ctx.raises(lambda: ray.cancel(call, force=True), "ValueError")
