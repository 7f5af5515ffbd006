"""In a task, a signal that does not exist is refused by the system, and a handler gets the signal's number as an int."""

import os
import signal
import time


def run(ctx):
    ray = ctx.ray

    def attempt():
        found = []

        def handler(number, frame):
            found.append((type(number).__name__, number))

        before = signal.signal(signal.SIGUSR1, handler)
        try:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.02)
            signal.raise_signal(signal.SIGUSR1)
            time.sleep(0.02)
        finally:
            signal.signal(signal.SIGUSR1, before)
        for call in (
            lambda: os.kill(os.getpid(), 99999),
            lambda: os.kill(os.getpid(), -1),
            lambda: os.kill(os.getpid(), "x"),
            lambda: os.kill(os.getpid(), 0),
            lambda: signal.raise_signal(99999),
            lambda: signal.raise_signal(-1),
            lambda: signal.raise_signal(None),
            lambda: signal.signal(99999, handler),
            lambda: signal.getsignal(99999),
        ):
            try:
                found.append(call())
            except Exception as error:
                found.append(type(error).__name__)
        return found

    @ray.remote
    class Actor:
        def attempt(self):
            return attempt()

    ctx.show(*ray.get(ray.remote(attempt).remote()))
    ctx.show(*ray.get(Actor.remote().attempt.remote()))
