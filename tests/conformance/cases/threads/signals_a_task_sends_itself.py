"""os.kill, raise_signal, pthread_kill and interrupt_main in a task: handlers run at once, the driver is not concerned, a signal without a handler ends the worker."""

import _thread
import asyncio
import os
import signal
import threading
import time


def caught(call):
    """What a call returns or raises, as text."""
    try:
        return "returned", call()
    except KeyboardInterrupt:
        return "KeyboardInterrupt"
    except SystemExit as error:
        return "SystemExit", error.code
    except Exception as error:
        return type(error).__name__, str(error)


def run(ctx):
    ray = ctx.ray

    @ray.remote(max_retries=0)
    def attempt(call):
        return caught(call)

    def show(name, call):
        ctx.show(name)
        ctx.raises(lambda: ray.get(attempt.remote(call), timeout=30), "WorkerCrashedError", "TaskCancelledError")

    def in_a_thread(call):
        seen = []
        thread = threading.Thread(target=lambda: seen.append(caught(call)))
        thread.start()
        thread.join()
        time.sleep(0.3)
        return seen

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGCHLD, signal.SIGWINCH, signal.SIGPIPE, signal.SIGHUP):
        show(f"kill {number}", lambda: os.kill(os.getpid(), number))
        show(f"raise {number}", lambda: signal.raise_signal(number))
    show("pthread_kill", lambda: signal.pthread_kill(threading.get_ident(), signal.SIGUSR1))
    for number in (signal.SIGUSR1, signal.SIGCHLD, 0):
        show(f"kill(pid, {number}) in a thread", lambda: in_a_thread(lambda: os.kill(os.getpid(), number)))

    def order():
        seen = []

        def handler(number, frame):
            seen.append((int(number), frame.f_code.co_name, threading.current_thread().name, threading.current_thread() is threading.main_thread()))

        signal.signal(signal.SIGUSR1, handler)
        seen.append("before")
        os.kill(os.getpid(), signal.SIGUSR1)
        seen.append("after")
        signal.raise_signal(signal.SIGUSR1)
        signal.pthread_kill(threading.get_ident(), signal.SIGUSR1)
        _thread.interrupt_main(signal.SIGUSR1)
        return seen

    show("order", order)

    def raising():
        def handler(number, frame):
            raise ValueError(int(number))

        signal.signal(signal.SIGUSR1, handler)
        signal.raise_signal(signal.SIGUSR1)

    show("a handler that raises", raising)

    def ignored():
        before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.kill(os.getpid(), signal.SIGTERM)
        return callable(before), signal.getsignal(signal.SIGTERM), signal.signal(signal.SIGTERM, signal.SIG_IGN)

    show("ignored", ignored)
    for arguments in [(10, 5.5), (10, None), (999, 1), (0, 1), (9, 1), ("a", 1), (10, 2)]:
        show(f"signal{arguments}", lambda: signal.signal(*arguments))
    show("numbers", lambda: (signal.signal(12, 1), signal.signal(12, 0), signal.getsignal(12), signal.getsignal(signal.SIGPIPE)))
    show("getsignal(999)", lambda: signal.getsignal(999))
    show("interrupt_main, no handler", lambda: _thread.interrupt_main(signal.SIGHUP))
    show("interrupt_main(999)", lambda: _thread.interrupt_main(999))
    show("interrupt_main", lambda: (_thread.interrupt_main(), time.sleep(0.3)))
    show("in a thread", lambda: in_a_thread(lambda: signal.signal(10, signal.SIG_IGN)))
    show("in a thread", lambda: in_a_thread(lambda: signal.set_wakeup_fd(-1)))
    show("in a thread", lambda: in_a_thread(lambda: (signal.alarm(50), signal.alarm(0))))

    def in_a_loop():
        async def main():
            seen = asyncio.Event()
            loop = asyncio.get_running_loop()
            loop.add_signal_handler(signal.SIGUSR1, seen.set)
            os.kill(os.getpid(), signal.SIGUSR1)
            await asyncio.wait_for(seen.wait(), 5)
            return loop.remove_signal_handler(signal.SIGUSR1), signal.getsignal(signal.SIGUSR1)

        return asyncio.run(main())

    show("in a loop", in_a_loop)

    def interrupted_loop():
        seen = []

        async def main():
            threading.Timer(0.2, _thread.interrupt_main).start()
            try:
                await asyncio.sleep(20)
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        return caught(lambda: asyncio.run(main())), seen

    show("an interrupted loop", interrupted_loop)

    class Keeps:
        def set(self):
            self.seen = []
            return signal.signal(signal.SIGUSR1, lambda number, frame: self.seen.append(int(number))), signal.setitimer(signal.ITIMER_REAL, 1000)

        def send(self):
            os.kill(os.getpid(), signal.SIGUSR1)
            return self.seen, signal.getitimer(signal.ITIMER_REAL)[0] > 500

    keeps, other = (ray.remote(num_cpus=0)(Keeps).remote() for _ in range(2))
    ctx.raises(lambda: ray.get([keeps.set.remote(), keeps.send.remote()]))
    ctx.raises(lambda: ray.get(other.send.remote()), "ActorDiedError")
    ctx.raises(lambda: ray.get(keeps.send.remote()))

    @ray.remote(max_retries=0)
    def own_handler_of_cancel(ignore):
        seen = []
        signal.signal(signal.SIGINT, signal.SIG_IGN if ignore else lambda number, frame: seen.append(int(number)))
        for _ in range(20):
            time.sleep(0.1)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        return seen

    for ignore in (True, False):
        ref = own_handler_of_cancel.remote(ignore)
        time.sleep(1)
        ray.cancel(ref)
        ctx.raises(lambda: ray.get(ref, timeout=30))
