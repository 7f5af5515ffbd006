"""Deadlocks of threads over locks and the like, in a simulation: the error names every wait."""

from __future__ import annotations

import queue
import threading

import pytest

import miniray as ray
from miniray.testing import simulate


def waits_for_itself() -> None:
    """Takes a lock twice."""
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def joins_a_circle() -> None:
    """The driver waits for a thread that is part of a circle."""
    locks, both = [threading.Lock(), threading.Lock()], threading.Barrier(2)

    def take(first: int, second: int) -> None:
        with locks[first]:
            both.wait()
            with locks[second]:
                pass

    threads = [threading.Thread(target=take, args=args, name=name) for name, args in (("a", (0, 1)), ("b", (1, 0)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def waits_beside_a_circle() -> None:
    """The driver waits for something else."""
    threading.Thread(target=joins_a_circle, name="c").start()
    queue.Queue().get()


def threads_of_one_name() -> None:
    """A circle of threads that have the same name."""
    locks, both = [threading.Lock(), threading.Lock()], threading.Barrier(2)

    def take(first: int) -> None:
        with locks[first]:
            both.wait()
            with locks[1 - first]:
                pass

    threads = [threading.Thread(target=take, args=(number,), name="a") for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def threads_of_one_actor() -> None:
    """A circle of two calls of a threaded actor."""

    @ray.remote(max_concurrency=2)
    class A:
        def __init__(self) -> None:
            self.locks, self.both = [threading.Lock(), threading.Lock()], threading.Barrier(2)

        def take(self, first: int) -> None:
            with self.locks[first]:
                self.both.wait()
                with self.locks[1 - first]:
                    pass

    actor = A.remote()
    ray.get([actor.take.remote(number) for number in range(2)])


def waits_for_the_dead() -> None:
    """A thread has ended with a lock."""
    lock = threading.RLock()
    thread = threading.Thread(target=lock.acquire, name="a")
    thread.start()
    thread.join()
    with lock:
        pass


def waits_for_a_function_of_the_library() -> None:
    """Of a thread, nothing but functions of the standard library is on the stack."""
    thread = threading.Thread(target=queue.Queue().get, name="a")
    thread.start()
    thread.join()


HERE = r" \(test_deadlocks_of_threads.py:\d+\)"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize(
    ("program", "text"),
    [
        (waits_for_itself, f"driver waits for lock 1{HERE}, which it has itself. 1 thread waits forever: driver$"),
        (
            joins_a_circle,
            f"driver waits for the end of thread a; thread a waits for lock 2{HERE}, which thread b has; thread b waits "
            f"for lock 1{HERE}, which thread a has; the circle is thread a -> thread b -> thread a. 3 threads wait "
            "forever: driver, thread a, thread b$",
        ),
        (
            waits_beside_a_circle,
            f"driver waits in Queue.get{HERE}. 4 threads wait forever: driver, thread c, thread a, thread b. Besides, "
            f"thread c waits for the end of thread a; thread a waits for .*; another circle is thread a -> thread b -> "
            "thread a",
        ),
        (threads_of_one_name, r"the circle is thread a -> thread a \(2\) -> thread a. 3 threads"),
        (
            threads_of_one_actor,
            r"the circle is \S*A \(actor 1, worker 1\) -> \S*A \(actor 1, worker 2\) -> \S*A \(actor 1, worker 1\). 3 t",
        ),
        (waits_for_the_dead, f"driver waits for lock 1{HERE}, which thread a has not released before its end. 1"),
        (waits_for_a_function_of_the_library, "the end of thread a; thread a waits in Queue.get. 2 threads"),
    ],
)
def test_a_deadlock_names_every_wait(program, text):
    """It used to name locks without their owners, and neither the circle nor the waits behind a join."""
    with pytest.raises(ray.exceptions.DeadlockError, match=text):
        simulate(program, 1)
