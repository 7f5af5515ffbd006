"""The processes that an actor or a task starts are killed when its worker ends, whichever way, and at the end of the session."""

import multiprocessing
import os
import subprocess
import sys
import time

INIT = None


def run(ctx):
    ray = ctx.ray
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False)

    class Starts:
        def start(self, how):
            if how == "Popen":
                self.child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(100)"])
            elif how == "shell":
                self.child = subprocess.Popen("sleep 100", shell=True)
            else:
                self.child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(100,), daemon=True)
                self.child.start()
            return self.child.pid

        def leave(self, how):
            if how == "exit_actor":
                ray.actor.exit_actor()
            os._exit(1)

        def wait(self):
            return subprocess.run([sys.executable, "-c", "import time; time.sleep(100)"]).returncode

    def alive(pid):
        try:
            os.kill(pid, 0)
            return True
        except ProcessLookupError:
            return False

    def gone(pid):
        end = time.monotonic() + 10
        while alive(pid) and time.monotonic() < end:
            time.sleep(0.05)
        return not alive(pid)

    Actor = ray.remote(num_cpus=0)(Starts)
    for how, ways in {"Popen": ("exit_actor", "os._exit", "kill", "dropped"), "fork": ("exit_actor", "dropped")}.items():
        for way in ways:
            actor = Actor.remote()
            pid = ray.get(actor.start.remote(how))
            ctx.show(how, way, alive(pid))
            if way == "kill":
                ray.kill(actor)
            elif way != "dropped":
                ctx.raises(lambda: ray.get(actor.leave.remote(way)), "ActorDiedError")
            del actor
            ctx.show("gone", gone(pid))
    busy = Actor.remote()
    pid = ray.get(busy.start.remote("Popen"))
    ref = busy.wait.remote()
    time.sleep(0.5)
    ray.kill(busy)
    ctx.raises(lambda: ray.get(ref, timeout=20), "ActorDiedError")
    ctx.show("busy, gone", gone(pid))

    @ray.remote(max_retries=0)
    def crash():
        child = subprocess.Popen(["sleep", "100"])
        with open(path, "w") as file:
            file.write(str(child.pid))
        os._exit(1)

    path = f"/tmp/child_of_{os.getpid()}"
    ctx.raises(lambda: ray.get(crash.remote()), "WorkerCrashedError")
    with open(path) as file:
        ctx.show("crashed, gone", gone(int(file.read())))
    os.remove(path)
    kept = Actor.remote()
    pid = ray.get(kept.start.remote("shell"))
    ctx.show("kept", alive(pid), ray.get(ray.remote(lambda: 1).remote()), alive(pid))
    ray.shutdown()
    ctx.show("after the session, gone", gone(pid))
