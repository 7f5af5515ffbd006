"""`cancel`: end a task that is no longer needed.

A task that has not started never will. A running task is interrupted. `get` on its reference raises TaskCancelledError.
A task that has finished keeps its value, because there is nothing left to cancel.

Prints:

    running, cancelled: TaskCancelledError
    queued, cancelled: TaskCancelledError
    finished, cancelled too late: done
"""

import time

import miniray as ray


@ray.remote
class Bell:
    def __init__(self):
        self.rung = False

    def ring(self):
        self.rung = True

    def has_rung(self):
        return self.rung


@ray.remote(max_retries=0)
def sleep_long(bell):
    bell.ring.remote()  # without `get`: a task that waits lends its CPU, and then the other one could start
    for _ in range(1000):
        time.sleep(0.1)


@ray.remote
def short():
    return "done"


ray.init(num_cpus=1)

bell = Bell.options(num_cpus=0).remote()
running, queued = sleep_long.remote(bell), short.remote()  # there is one CPU: the second waits for the first
while not ray.get(bell.has_rung.remote()):
    time.sleep(0.01)

ray.cancel(queued)
ray.cancel(running)
for name, ref in ("running", running), ("queued", queued):
    try:
        ray.get(ref)
    except ray.exceptions.TaskCancelledError:
        print(f"{name}, cancelled: TaskCancelledError")

finished = short.remote()
ray.wait([finished])
ray.cancel(finished)
print("finished, cancelled too late:", ray.get(finished))

ray.shutdown()
