"""Each concurrency group of an async actor has a thread and an event loop; the default group shares the constructor's."""


def run(ctx):
    import asyncio

    ray = ctx.ray

    @ray.remote(concurrency_groups={"io": 2, "compute": 1})
    class Server:
        def __init__(self):
            self.loops = {"constructor": asyncio.get_running_loop()}
            self.lock = asyncio.Lock()

        async def default(self):
            self.loops["default"] = asyncio.get_running_loop()

        def plain(self):
            self.loops["plain"] = asyncio.get_running_loop()

        @ray.method(concurrency_group="io")
        async def io(self):
            self.loops["io"] = asyncio.get_running_loop()
            return len(asyncio.all_tasks())

        @ray.method(concurrency_group="io")
        def plain_io(self):
            self.loops["plain io"] = asyncio.get_running_loop()

        @ray.method(concurrency_group="io")
        async def items(self):
            yield 1
            self.loops["items"] = asyncio.get_running_loop()

        @ray.method(concurrency_group="compute")
        async def compute(self):
            self.loops["compute"] = asyncio.get_running_loop()

        async def shared(self):
            names, seen = {}, []
            for name, loop in self.loops.items():
                seen.append((name, names.setdefault(loop, name)))
            return sorted(seen)

        async def wait(self):
            self.event = asyncio.Event()
            await asyncio.wait_for(self.event.wait(), 20)
            return "done"

        @ray.method(concurrency_group="io")
        async def finish(self):
            while not hasattr(self, "event"):
                await asyncio.sleep(0.01)
            self.loops["default"].call_soon_threadsafe(self.event.set)

        @ray.method(concurrency_group="io")
        async def across(self):
            async def there():
                return asyncio.get_running_loop() is self.loops["compute"]

            return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(there(), self.loops["compute"]))

        @ray.method(concurrency_group="io")
        async def locked(self):
            async with self.lock:
                return "locked"

        @ray.method(concurrency_group="io")
        async def cancelled(self):
            self.waits = True
            try:
                await asyncio.sleep(100)
            finally:
                self.loops["cancelled"] = asyncio.get_running_loop()

        async def until_it_waits(self):
            while not hasattr(self, "waits"):
                await asyncio.sleep(0.01)

    server = Server.remote()
    for method in (server.default, server.plain, server.plain_io, server.compute):
        ray.get(method.remote())
    ctx.show(ray.get(server.io.remote()))
    ctx.show([ray.get(ref) for ref in server.items.options(num_returns="streaming").remote()])
    ctx.show(ray.get(server.shared.remote()))
    waiting = server.wait.remote()
    ray.get(server.finish.remote())
    ctx.show(ray.get(waiting), ray.get(server.locked.remote()))
    ctx.show(ray.get(server.across.remote()))
    ray.get(server.default.options(concurrency_group="io").remote())
    ref = server.cancelled.remote()
    ray.get(server.until_it_waits.remote())
    ray.cancel(ref)
    ctx.raises(lambda: ray.get(ref), "TaskCancelledError")
    ctx.show(ray.get(server.shared.remote()))
