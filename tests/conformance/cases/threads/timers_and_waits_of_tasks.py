"""alarm, setitimer and pause in a task: the handler runs while the task waits, and what it raises comes out of the wait; without a handler the worker ends."""

import os
import signal
import threading
import time


def caught(call):
    """What a call returns or raises, as text."""
    try:
        return "returned", call()
    except signal.ItimerError as error:
        return "itimer_error", str(error)  # its name since 3.13: ItimerError
    except Exception as error:
        return type(error).__name__, str(error)


def run(ctx):
    ray = ctx.ray

    @ray.remote(max_retries=0)
    def attempt(call):
        return caught(call)

    def show(name, call):
        ctx.show(name)
        ctx.raises(lambda: ray.get(attempt.remote(call), timeout=30), "WorkerCrashedError")

    show("alarm", lambda: (signal.alarm(1), time.sleep(10)))
    show("setitimer", lambda: (signal.setitimer(signal.ITIMER_REAL, 0.2), time.sleep(10)))

    def repeated():
        seen = []
        signal.signal(signal.SIGALRM, lambda number, frame: seen.append(number))
        old = signal.setitimer(signal.ITIMER_REAL, 0.2, 0.2)
        begun = time.monotonic()
        time.sleep(1.1)
        slept = time.monotonic() - begun
        while len(seen) < 3 and time.monotonic() - begun < 20:
            time.sleep(0.1)
        now, last = signal.getitimer(signal.ITIMER_REAL), signal.setitimer(signal.ITIMER_REAL, 0)
        count = len(seen)
        time.sleep(0.5)
        return old, count >= 3, len(seen) - count <= 1, slept >= 1.1, now[1], last[1], signal.getitimer(signal.ITIMER_REAL)

    show("repeated", repeated)
    show("alarm twice", lambda: (signal.alarm(30), signal.alarm(20), signal.alarm(0), signal.alarm(0)))
    for arguments in [(signal.ITIMER_REAL, -1), (9, 1), (signal.ITIMER_REAL, "a")]:
        show(f"setitimer{arguments}", lambda: caught(lambda: signal.setitimer(*arguments))[0])
    show("getitimer(9)", lambda: signal.getitimer(9))
    show("alarm(1.5)", lambda: signal.alarm(1.5))

    def paused():
        seen = []
        signal.signal(signal.SIGUSR1, lambda number, frame: seen.append(int(number)))
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        return signal.pause(), seen

    show("pause", paused)

    def paused_and_raised():
        def handler(number, frame):
            raise ValueError("from the handler")

        signal.signal(signal.SIGUSR1, handler)
        threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        signal.pause()

    show("pause, raised", paused_and_raised)

    def very_instance(wait):
        class Late(Exception):
            def __init__(self, text, number):
                super().__init__(text, number)

        raised = Late("this", 1)

        def handler(number, frame):
            raise raised

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 1.0)
        begun = time.monotonic()
        try:
            wait()
        except Late as error:
            return error is raised, type(error) is Late, error.args, time.monotonic() - begun < 5
        return "not raised"

    def loops():
        while True:
            time.sleep(0)

    for name, wait in {
        "sleep": lambda: time.sleep(8),
        "loop": loops,
    }.items():
        show(f"in {name}", lambda: very_instance(wait))

    def handled():
        seen = []

        def handler(number, frame):
            me = threading.current_thread()
            before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
            seen.append((me.name, me is threading.main_thread(), frame.f_code.co_name, before is handler, signal.setitimer(signal.ITIMER_REAL, 0)[1]))

        signal.signal(signal.SIGALRM, handler)
        signal.setitimer(signal.ITIMER_REAL, 0.2, 0.7)
        for _ in range(10):
            time.sleep(0.1)
        return seen, signal.getsignal(signal.SIGALRM)

    show("in the handler", handled)

    class Actor:
        def alarm(self):
            return signal.alarm(30), signal.alarm(0)

        def die(self):
            signal.setitimer(signal.ITIMER_REAL, 0.2)
            time.sleep(5)

    for options in ({}, {"max_concurrency": 2}):
        actor = ray.remote(num_cpus=0, **options)(Actor).remote()
        ctx.raises(lambda: ray.get(actor.alarm.remote()))
        ctx.raises(lambda: ray.get(actor.die.remote(), timeout=20), "ActorDiedError")
