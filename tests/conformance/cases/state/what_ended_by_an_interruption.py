"""A running task that KeyboardInterrupt ends is FINISHED; a cancelled coroutine, and a task given an error, have raised."""

import asyncio
import os
import time

INIT = dict(num_cpus=4, include_dashboard=True)


def run(ctx):
    state, ray = ctx.sub("util.state"), ctx.ray

    def row(name):
        for _ in range(150):
            rows = state.list_tasks(filters=[("name", "=", name)], detail=True)
            if len(rows) == 1 and rows[0].state in ("FINISHED", "FAILED"):
                return rows[0].state, rows[0].error_type
            time.sleep(0.1)
        return rows

    def outcome(ref):
        try:
            return ray.get(ref, timeout=30)
        except Exception as error:
            return type(error).__name__

    @ray.remote
    class Gate:
        def __init__(self):
            self.entered = set()

        def enter(self, name):
            self.entered.add(name)

        def wait_for(self, name):
            return name in self.entered

    gate = Gate.remote()

    def when_entered(name):
        while not ray.get(gate.wait_for.remote(name)):
            time.sleep(0.05)

    @ray.remote(max_retries=0)
    def interrupted():
        raise KeyboardInterrupt

    @ray.remote(max_retries=2, retry_exceptions=True)
    def interrupted_with_retries():
        raise KeyboardInterrupt

    @ray.remote(max_retries=0)
    def sleeps(name):
        ray.get(gate.enter.remote(name))
        for _ in range(600):
            time.sleep(0.05)

    @ray.remote(max_retries=0)
    def swallows(name):
        try:
            ray.get(gate.enter.remote(name))
            for _ in range(600):
                time.sleep(0.05)
        except KeyboardInterrupt:
            return "swallowed"

    @ray.remote(max_retries=0)
    def yields():
        yield 1
        raise KeyboardInterrupt

    @ray.remote(max_retries=0)
    def crashes():
        os._exit(1)

    @ray.remote(max_retries=0)
    def takes(value):
        return value

    @ray.remote
    class Actor:
        def interrupted(self):
            raise KeyboardInterrupt

        def crashes(self):
            os._exit(1)

    @ray.remote
    class Coroutines:
        async def sleeps(self):
            await gate.enter.remote("coroutine")
            await asyncio.sleep(60)

        async def cancels_itself(self):
            raise asyncio.CancelledError

    @ray.remote
    class Interrupted:
        def __init__(self):
            raise KeyboardInterrupt

    for function in (interrupted, interrupted_with_retries):
        name = "once" if function is interrupted else "retried"
        ref = function.options(name=name).remote()
        ctx.show(name, outcome(ref), row(name))

    ref = sleeps.options(name="sleeps").remote("sleeps")
    when_entered("sleeps")
    ray.cancel(ref)
    ctx.show("sleeps", outcome(ref), row("sleeps"))
    ctx.show("takes what was cancelled", outcome(takes.options(name="takes1").remote(ref)), row("takes1"))

    ref = swallows.options(name="swallows").remote("swallows")
    when_entered("swallows")
    ray.cancel(ref)
    ctx.show("swallows", outcome(ref), row("swallows"))

    generator = yields.options(name="yields", num_returns="streaming").remote()
    ctx.show("yields", [outcome(ref) for ref in generator], row("yields"))

    ref = crashes.options(name="crashes").remote()
    ctx.show("crashes", outcome(ref), row("crashes"))
    ctx.show("takes a crash", outcome(takes.options(name="takes2").remote(ref)), row("takes2"))

    actor = Actor.remote()
    ref = actor.interrupted.options(name="call").remote()
    ctx.show("call", outcome(ref), row("call"))
    ref = actor.crashes.remote()
    ctx.show("takes a dead actor's call", outcome(takes.options(name="takes3").remote(ref)), row("takes3"))

    coroutines = Coroutines.remote()
    ref = coroutines.sleeps.options(name="coroutine").remote()
    when_entered("coroutine")
    ray.cancel(ref)
    ctx.show("coroutine", outcome(ref), row("coroutine"))
    ref = coroutines.cancels_itself.options(name="itself").remote()
    ctx.show("itself", outcome(ref), row("itself"))

    actor = Interrupted.remote()
    ctx.show("constructor", outcome(actor.__ray_ready__.remote()), row("Interrupted.__init__"))
