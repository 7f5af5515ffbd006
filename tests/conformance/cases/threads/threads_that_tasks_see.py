"""threading in tasks and in actors of each kind: name, daemon flag and main thread of the own thread and of one that it starts; who may set signal handlers."""

import asyncio
import signal
import threading


class Looks:
    def facts(self):
        me = threading.current_thread()
        name = "Dummy" if me.name.startswith("Dummy") else me.name
        others = {thread.name for thread in threading.enumerate() if not thread.name.startswith("Dummy")} - {me.name, "PythonGCThread", "MainThread"}
        return name, me.daemon, me is threading.main_thread(), me.is_alive(), sorted(others)

    def started(self):
        seen = []
        me = threading.current_thread()

        def look():
            seen.append((threading.current_thread().daemon, threading.main_thread() is me, threading.current_thread() in threading.enumerate()))

        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        return seen

    def a_loop(self):
        loop = asyncio.get_event_loop()
        return loop is asyncio.get_event_loop(), loop.is_running()

    def handler(self):
        return signal.signal(signal.SIGUSR1, signal.SIG_IGN)

    def wakeup(self):
        return signal.set_wakeup_fd(-1)


class Runs(Looks):
    def run(self):
        async def main():
            return threading.current_thread() is threading.main_thread()

        return asyncio.run(main())

    def add_handler(self):
        async def main():
            asyncio.get_running_loop().add_signal_handler(10, lambda: None)

        return asyncio.run(main())

    def join(self):
        threading.current_thread().join(0.1)


class Async(Looks):
    async def add_handler(self):
        asyncio.get_running_loop().add_signal_handler(10, lambda: None)

    async def coroutine(self):
        return super().facts()


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def task(name):
        return getattr(Runs(), name)()

    actors = {
        "plain": ray.remote(num_cpus=0)(Runs).remote(),
        "threaded": ray.remote(num_cpus=0, max_concurrency=2)(Runs).remote(),
        "groups": ray.remote(num_cpus=0, concurrency_groups={"io": 1})(Runs).remote(),
        "async": ray.remote(num_cpus=0)(Async).remote(),
    }
    for name in [name for name in dir(Runs) if not name.startswith("_")]:
        ctx.show("task", name)
        ctx.raises(lambda: ray.get(task.remote(name), timeout=30), "RuntimeError", "ValueError")
        for kind, actor in actors.items():
            if name == "join" and kind != "plain" or name == "run" and kind == "async":
                continue
            ctx.show(kind, name)
            ctx.raises(lambda: ray.get(getattr(actor, name).remote(), timeout=30), "RuntimeError", "ValueError")
    ctx.raises(lambda: ray.get(actors["async"].coroutine.remote()))
