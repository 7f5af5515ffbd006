"""An actor that was made anew has one creation, of attempt 0; its retried call has an attempt that found it unavailable."""
import os
import time

INIT = dict(num_cpus=2, include_dashboard=True)


def run(ctx):
    state, ray = ctx.sub("util.state"), ctx.ray

    @ray.remote(max_restarts=-1, max_task_retries=-1)
    class Phoenix:
        def crash(self, times):
            with open(self.path, "a") as file:
                file.write("x")
            if os.path.getsize(self.path) <= times:
                os._exit(1)
            return "done"

        def __init__(self, path):
            self.path = path

    @ray.remote(num_cpus=1)
    class Holder:
        def ping(self):
            return "pong"

    path = os.path.join("/tmp", f"crashes-{os.getpid()}-{time.time()}")
    phoenix, holder = Phoenix.options(name="phoenix").remote(path), Holder.remote()
    ctx.show(ray.get([phoenix.crash.remote(1), holder.ping.remote()]))
    os.remove(path)
    for _ in range(80):
        rows = state.list_tasks(detail=True)
        if len(rows) == 5 and all(t.state in ("FINISHED", "FAILED") for t in rows):
            break
        time.sleep(0.25)
    for t in sorted(rows, key=lambda t: (t.name, t.attempt_number)):
        ctx.show(t.name, t.attempt_number, t.state, t.error_type, t.required_resources)
    (creation,) = [t for t in rows if t.name.endswith("Phoenix.__init__")]
    ctx.show(type(state.get_task(creation.task_id)).__name__)
    counts = state.summarize_tasks()["cluster"]["summary"]
    ctx.show([(name, sorted(counts[name]["state_counts"].items())) for name in sorted(counts)])
    for timeout in 0, -1:
        ctx.raises(lambda: state.summarize_tasks(timeout=timeout), "ValueError")
