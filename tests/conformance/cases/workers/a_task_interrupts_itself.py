"""SIGINT that a task or an actor sends to itself is blocked: nothing happens."""

import os
import signal


def run(ctx):
    ray = ctx.ray

    @ray.remote(max_retries=0)
    def interrupted(send):
        send()
        return "alive"

    @ray.remote
    class Actor:
        def interrupted(self, send):
            send()
            return "alive"

    actor = Actor.remote()
    for send in (lambda: os.kill(os.getpid(), signal.SIGINT)), (lambda: signal.raise_signal(signal.SIGINT)):
        ctx.show(ray.get(interrupted.remote(send)), ray.get(actor.interrupted.remote(send)))
