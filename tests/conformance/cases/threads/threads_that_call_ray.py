"""Threads that a task, an actor and an async actor start: what the runtime context tells them, their environment, their
copies of classes, what they own."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor


class Point:
    made = 0

    def __init__(self, x):
        self.x = x


def facts(ray, of):
    """What the calling thread is told, compared with what the code `of` that started it was told."""
    context = ray.get_runtime_context()
    try:
        current = context.current_actor._actor_id.hex() == of["actor"]
    except RuntimeError as error:
        current = type(error).__name__
    try:
        reconstructed = context.was_current_actor_reconstructed
    except Exception as error:
        reconstructed = type(error).__name__
    return {
        "actor": context.get_actor_id() == of["actor"],
        "worker": context.get_worker_id() == of["worker"],
        "node": context.get_node_id() == of["node"],
        "job": context.get_job_id() == of["job"],
        "namespace": context.namespace == of["namespace"],
        "task": context.get_task_id() == of["task"],
        "task is None": context.get_task_id() is None,
        "names": (context.get_actor_name(), context.get_task_name(), context.get_task_function_name()),
        "current": current,
        "reconstructed": reconstructed,
        "assigned": context.get_assigned_resources(),
        "captures": context.should_capture_child_tasks_in_placement_group,
        "group": context.get_placement_group_id(),
        "variables": context.runtime_env.get("env_vars"),
        "devices": ray.get_gpu_ids(),
        "started": ray.is_initialized(),
        "mode": ray._private.worker.global_worker.mode,
    }


def own(ray):
    context = ray.get_runtime_context()
    return {
        "actor": context.get_actor_id(),
        "worker": context.get_worker_id(),
        "node": context.get_node_id(),
        "job": context.get_job_id(),
        "namespace": context.namespace,
        "task": context.get_task_id(),
    }


def in_thread(function, *args):
    seen = []

    def run():
        try:
            seen.append(function(*args))
        except BaseException as error:
            seen.append(f"{type(error).__name__} {error}")

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    return seen[0]


def in_pool(function, *args):
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(function, *args).result()


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def make():
        return Point(3)

    @ray.remote
    def node():
        return ray.get_runtime_context().get_node_id()

    @ray.remote
    class Plain:
        def look(self):
            return in_thread(facts, ray, own(ray)), in_pool(facts, ray, own(ray))

        def from_a_thread_of_a_thread(self):
            return in_thread(in_thread, facts, ray, own(ray))

        def leave(self):
            return in_thread(ray.actor.exit_actor)

        def begin(self):
            """Work that goes on after the call."""
            self.refs, self.done = [], threading.Event()

            def work():
                self.refs.append(ray.put("mine"))
                self.refs.append(make.remote())
                ray.wait(self.refs, num_returns=2)
                self.done.set()

            threading.Thread(target=work, daemon=True).start()

        def found(self):
            self.done.wait()
            return self.refs

    @ray.remote
    class Async:
        async def look(self):
            return in_thread(facts, ray, own(ray))

    @ray.remote
    def task():
        return in_thread(facts, ray, own(ray))

    @ray.remote(runtime_env={"env_vars": {"MINE": "yes"}})
    def with_variables():
        return in_thread(facts, ray, own(ray))["variables"], in_thread(os.getenv, "MINE")

    @ray.remote
    def copies(held):
        Point.made += 1
        return [
            in_thread(lambda: isinstance(ray.get(make.remote()), Point)),
            in_thread(lambda: isinstance(ray.get(held[0]), Point)),
            in_thread(lambda: type(ray.get(ray.put(Point(2)))) is Point),
            in_thread(lambda: Point.made) == Point.made,
            in_thread(lambda: ray.get(node.remote())) == own(ray)["node"],
        ]

    def told(name, found):
        for key, value in found.items():
            ctx.show(f"{name}, {key}", value)

    plain = Plain.options(name="plain").remote()
    thread, pool = ray.get(plain.look.remote())
    told("a thread of an actor", thread)
    ctx.show("the same in a pool", thread == pool)
    ctx.show("the same in a thread of a thread", ray.get(plain.from_a_thread_of_a_thread.remote()) == thread)
    leaving = Plain.remote()
    ctx.show("exit_actor", ray.get(leaving.leave.remote()))
    ctx.raises(lambda: [ray.get(leaving.from_a_thread_of_a_thread.remote(), timeout=30) for _ in range(1000)])
    told("a thread of an async actor", ray.get(Async.remote().look.remote()))
    told("a thread of a task", ray.get(task.remote()))
    ctx.show("variables", ray.get(with_variables.remote()))
    ctx.show("copies", ray.get(copies.remote([ray.put(Point(1))])))
    ray.get(plain.begin.remote())
    mine, made = ray.get(plain.found.remote())
    ctx.show("put by a thread", ray.get(mine))
    ctx.show("made for a thread", ray.get(made).x)
    ray.kill(plain)
    for name, ref in ("put", mine), ("made", made):
        until = time.monotonic() + 30
        while time.monotonic() < until:
            try:
                ray.get(ref, timeout=1)
            except Exception as error:
                ctx.show(f"what a thread of a dead actor has {name}", type(error).__name__)
                break
            time.sleep(0.05)
        else:
            ctx.show(f"what a thread of a dead actor has {name}", "is still there")
