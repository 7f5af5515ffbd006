"""The error of a cancelled task has the id of a task that had started, and no args for one that had not."""

import asyncio


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Gate:
        def __init__(self):
            self.entered = asyncio.Event()

        async def enter(self):
            self.entered.set()
            await asyncio.sleep(1000)

        async def arrive(self):
            self.entered.set()

        async def reached(self):
            await self.entered.wait()
            self.entered.clear()

    gate = Gate.remote()

    held = gate.enter.remote()
    ray.get(gate.reached.remote())

    @ray.remote
    def waits(gate, held):
        ray.get(gate.arrive.remote())
        ray.get(held[0])

    @ray.remote
    def after(value):
        pass

    @ray.remote(num_returns="streaming")
    def stream(gate, held):
        yield 1
        ray.get(gate.arrive.remote())
        ray.get(held[0])

    @ray.remote
    def interrupts_itself():
        raise KeyboardInterrupt

    def show(what, ref):
        try:
            ctx.show(what, ray.get(ref, timeout=60))
        except ray.exceptions.TaskCancelledError as error:
            cause = getattr(error, "cause", None)
            args = [[type(arg).__name__ for arg in e.args] for e in (error, cause) if e is not None]
            ctx.show(what, type(error).__name__, type(error.task_id).__name__, args)

    def cancelled(ref, **options):
        ray.cancel(ref, **options)
        return ref

    for what, start in ("task", lambda: waits.remote(gate, [held])), ("async call", lambda: gate.enter.remote()):
        ref = start()
        ray.get(gate.reached.remote())
        show(what, cancelled(ref))
    forced = waits.remote(gate, [held])
    ray.get(gate.reached.remote())
    show("force", cancelled(forced, force=True))
    generator = stream.remote(gate, [held])
    next(generator)
    ray.get(gate.reached.remote())
    ray.cancel(generator)
    show("stream", next(generator))
    show("waits for its argument", cancelled(after.remote(held)))
    show("raises KeyboardInterrupt", interrupts_itself.remote())
