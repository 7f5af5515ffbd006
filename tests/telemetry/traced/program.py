"""Calls of every kind, each in a step of its own. The spans are the answer; the program prints nothing of interest.

$WITHOUT_OPENTELEMETRY: open spans with `ray.util.tracing`, which only miniray has, and write the session's spans at the
end.
"""

import asyncio
import json
import os
import sys
import threading
import time

import ray

FOLDER = os.environ["SPANS_FOLDER"]
ALONE = bool(os.environ.get("WITHOUT_OPENTELEMETRY"))


def span(name, **attributes):
    """A span of the program."""
    if ALONE:
        from ray.util.tracing import start_span

        return start_span(name, **attributes)
    from opentelemetry import trace

    return trace.get_tracer("program").start_as_current_span(name, attributes=attributes)


@ray.remote
def leaf(x=1):
    return x


@ray.remote
def parent():
    return ray.get(leaf.remote(2))


@ray.remote
def fail():
    raise ValueError("boom")


class Own(Exception):
    pass


@ray.remote
def fail_own():
    raise Own("mine")


@ray.remote(max_retries=2, retry_exceptions=True)
def flaky(path):
    if not os.path.exists(path):
        open(path, "w").close()
        raise RuntimeError("first")
    return ray.get(leaf.remote())


@ray.remote
def inner_span():
    with span("user-inner", k="v"):
        return ray.get(leaf.remote())


@ray.remote
def fails_in_span():
    with span("user-fails"):
        raise ValueError("in the span")


@ray.remote
def generator():
    yield 1


@ray.remote
def puts():
    ray.get(ray.put(1))


@ray.remote(max_retries=1)
def crash_once(path):
    if not os.path.exists(path):
        open(path, "w").close()
        os._exit(1)
    return 1


@ray.remote(max_retries=0)
def crash():
    os._exit(1)


@ray.remote(max_retries=0)
def leaves():
    sys.exit(0)


@ray.remote
def sleeps(path):
    open(path, "w").close()
    time.sleep(60)


@ray.remote
def unpicklable():
    return threading.Lock()


@ray.remote
def in_thread():
    import contextvars

    def run():
        with span("in-thread"):
            pass

    thread = threading.Thread(target=contextvars.copy_context().run, args=(run,))
    thread.start()
    thread.join()


@ray.remote
class Act:
    def m(self):
        return 1

    def calls_task(self):
        return ray.get(leaf.remote())

    def bad(self):
        raise KeyError("actor boom")

    @ray.method(num_returns=2)
    def two(self):
        return 1, 2

    def own_span(self):
        with span("in-method"):
            return ray.get(leaf.remote())

    def makes(self):
        other = Act.remote()
        return ray.get(other.m.remote())

    def inside(self):
        return self.m()

    def leave(self):
        ray.actor.exit_actor()


@ray.remote(max_restarts=1, max_task_retries=1)
class Restarts:
    def __init__(self, path):
        self.path = path

    def crash_once(self):
        if not os.path.exists(self.path):
            open(self.path, "w").close()
            os._exit(1)


@ray.remote
class WithInit:
    def __init__(self, x):
        self.x = ray.get(leaf.remote(x))

    def m(self):
        return self.x


@ray.remote
class BadInit:
    def __init__(self):
        raise ValueError("init boom")

    def m(self):
        return 1


@ray.remote
class Asy:
    async def am(self):
        return 1

    async def nested(self):
        return await leaf.remote()

    async def own_span(self):
        with span("in-async"):
            await asyncio.sleep(0)
            return await leaf.remote()

    async def bad(self):
        raise KeyError("async boom")

    def plain(self):
        return 1

    async def hangs(self, path):
        open(path, "w").close()
        await asyncio.sleep(60)


def unwrapped(function):
    def wrapper(*args):
        return function(*args)

    return wrapper


@ray.remote
@unwrapped
def decorated():
    return 1


class Base:
    def inherited(self):
        return 1

    @unwrapped
    def decorated(self):
        return 1


@ray.remote(max_concurrency=2, concurrency_groups={"io": 1})
class Threaded(Base):
    def __init__(self):
        self.tries = 0

    def waits(self, ref):
        return ray.get(ref[0])

    @ray.method(concurrency_group="io")
    def grouped(self):
        return ray.get(leaf.remote())

    @ray.method(max_task_retries=2, retry_exceptions=True)
    def flaky(self):
        self.tries += 1
        if self.tries < 3:
            raise ValueError(f"try {self.tries}")

    def calls(self, handle):
        return ray.get(handle.m.remote())

    def calls_itself(self):
        me = ray.get_runtime_context().current_actor
        return ray.get(me.inherited.remote())

    def no_result(self):
        return None


@ray.remote(num_returns="dynamic")
def dynamic():
    yield 1
    yield 2


@ray.remote(num_returns=0)
def no_result():
    return None


@ray.remote
def passes_on(refs):
    return ray.get(refs[0])


def threaded():
    actor = Threaded.remote()
    ray.get([actor.waits.remote([leaf.remote()]), actor.grouped.remote(), actor.inherited.remote()])
    ray.get([actor.calls.remote(act), actor.calls_itself.remote(), actor.flaky.remote()])
    ray.get(actor.no_result.options(num_returns=1).remote())


def get_if_exists():
    first = Act.options(name="one", get_if_exists=True).remote()
    ray.get(first.m.remote())
    again = Act.options(name="one", get_if_exists=True).remote()
    ray.get(again.m.remote())


def pool():
    from ray.util import ActorPool

    return list(ActorPool([Act.remote(), Act.remote()]).map(lambda actor, x: actor.m.remote(), [1, 2, 3]))


def queue():
    from ray.util.queue import Queue

    queue = Queue()
    queue.put(1)
    return queue.get()


def graph():
    from ray.dag import InputNode

    with InputNode() as x:
        made = leaf.bind(leaf.bind(x))
    return ray.get(made.execute(1))


def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.02)


def fails(call):
    """Call something that raises."""
    try:
        call()
    except Exception:
        return
    raise AssertionError("it did not fail")


def driver_span():
    with span("user-outer"):
        ray.get(leaf.remote())
        ray.get(act.m.remote())
        with span("user-middle"):
            return ray.get(WithInit.remote(3).m.remote())


def local_class():
    @ray.remote
    class Local:
        def m(self):
            return 1

    return ray.get(Local.remote().m.remote())


def local_function():
    @ray.remote
    def local():
        return 1

    return ray.get(local.remote())


def cancelled():
    path = os.path.join(FOLDER, "sleeping")
    ref = sleeps.remote(path)
    wait_for(path)
    ray.cancel(ref)
    fails(lambda: ray.get(ref))


def cancelled_async():
    path = os.path.join(FOLDER, "hanging")
    actor = Asy.remote()
    ref = actor.hangs.remote(path)
    wait_for(path)
    ray.cancel(ref)
    fails(lambda: ray.get(ref))
    ray.get(actor.am.remote())


def cancelled_pending():
    ref = leaf.options(resources={"none": 1}).remote()
    ray.cancel(ref)
    fails(lambda: ray.get(ref))


def bad_arguments():
    fails(lambda: leaf.remote(1, 2, 3))
    fails(lambda: act.m.remote(1))
    fails(lambda: Act.remote(1))


STEPS = {
    "leaf": lambda: ray.get(leaf.remote()),
    "parent": lambda: ray.get(parent.remote()),
    "fail": lambda: fails(lambda: ray.get(fail.remote())),
    "fail_own": lambda: fails(lambda: ray.get(fail_own.remote())),
    "flaky": lambda: ray.get(flaky.remote(os.path.join(FOLDER, "flaky"))),
    "inner_span": lambda: ray.get(inner_span.remote()),
    "fails_in_span": lambda: fails(lambda: ray.get(fails_in_span.remote())),
    "generator": lambda: [ray.get(item) for item in generator.remote()],
    "put": lambda: ray.get(puts.remote()),
    "named": lambda: ray.get(leaf.options(name="other").remote()),
    "method": lambda: ray.get(act.m.remote()),
    "calls_task": lambda: ray.get(act.calls_task.remote()),
    "bad": lambda: fails(lambda: ray.get(act.bad.remote())),
    "two": lambda: ray.get(act.two.remote()),
    "get_actor": lambda: ray.get(ray.get_actor("the-actor").m.remote()),
    "method_options": lambda: ray.get(act.m.options(name="other").remote()),
    "own_span": lambda: ray.get(act.own_span.remote()),
    "makes": lambda: ray.get(act.makes.remote()),
    "inside": lambda: ray.get(act.inside.remote()),
    "ready": lambda: ray.get(act.__ray_ready__.remote()),
    "ray_call": lambda: ray.get(act.__ray_call__.remote(lambda self: 1)),
    "create": lambda: ray.get(Act.remote().m.remote()),
    "with_init": lambda: ray.get(WithInit.remote(2).m.remote()),
    "bad_init": lambda: fails(lambda: ray.get(BadInit.remote().m.remote())),
    "restarts": lambda: ray.get(Restarts.remote(os.path.join(FOLDER, "restarted")).crash_once.remote()),
    "async": lambda: ray.get(asy.am.remote()),
    "async_nested": lambda: ray.get(asy.nested.remote()),
    "async_span": lambda: ray.get(asy.own_span.remote()),
    "async_bad": lambda: fails(lambda: ray.get(asy.bad.remote())),
    "async_plain": lambda: ray.get(asy.plain.remote()),
    "driver_span": driver_span,
    "cancelled": cancelled,
    "cancelled_async": cancelled_async,
    "cancelled_pending": cancelled_pending,
    "crash": lambda: fails(lambda: ray.get(crash.remote())),
    "crash_once": lambda: ray.get(crash_once.remote(os.path.join(FOLDER, "crashed"))),
    "sys_exit": lambda: fails(lambda: ray.get(leaves.remote())),
    "unpicklable": lambda: fails(lambda: ray.get(unpicklable.remote())),
    "in_thread": lambda: ray.get(in_thread.remote()),
    "local_class": local_class,
    "local_function": local_function,
    "bad_arguments": bad_arguments,
    "dependency": lambda: fails(lambda: ray.get(leaf.remote(fail.remote()))),
    "decorated": lambda: ray.get(decorated.remote()),
    "decorated_method": lambda: ray.get(Threaded.remote().decorated.remote()),
    "threaded": threaded,
    "get_if_exists": get_if_exists,
    "pool": pool,
    "queue": queue,
    "graph": graph,
    "dynamic": lambda: [ray.get(item) for item in ray.get(dynamic.remote())],
    "no_result": lambda: no_result.remote(),
    "passes_on": lambda: ray.get(passes_on.remote([leaf.remote()])),
    "parts": lambda: ray.get(leaf.options(num_returns=2).remote((1, 2))),
    "exit_actor": lambda: fails(lambda: ray.get(Act.remote().leave.remote())),
}


def write_own_spans():
    """Write the spans of miniray's session in the form of OpenTelemetry's exporter."""
    from ray.util.tracing import spans

    with open(os.path.join(FOLDER, "own.spans"), "w") as out:
        for one in spans():
            made = {
                "name": one.name,
                "context": {"trace_id": f"0x{one.trace_id:032x}", "span_id": f"0x{one.span_id:016x}"},
                "kind": f"SpanKind.{one.kind}",
                "parent_id": f"0x{one.parent_id:016x}" if one.parent_id else None,
                "start_time": f"{one.start_ns:020}",
                "status": {"status_code": one.status.code},
                "attributes": one.attributes,
                "events": [{"name": event.name, "attributes": event.attributes} for event in one.events],
                "links": list(one.links),
            }
            if one.status.description:
                made["status"]["description"] = one.status.description
            out.write(json.dumps(made) + "\n")


if __name__ == "__main__":
    hook = None if ALONE else "span_files:set_up"
    ray.init(num_cpus=4, namespace="n", log_to_driver=False, _tracing_startup_hook=hook)
    act = Act.options(name="the-actor").remote()
    asy = Asy.remote()
    ray.get([act.m.remote(), asy.plain.remote()])
    for name, step in STEPS.items():
        with span("step " + name):
            pass
        step()
        time.sleep(float(os.environ.get("SETTLE_S", "0")))  # so that the workers have written their spans
    if ALONE:
        write_own_spans()
    ray.shutdown()
