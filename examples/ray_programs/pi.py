"""Pi by throwing darts: many tasks throw, and an actor keeps the score meanwhile.

Each task has its own seed. It reports to the actor at regular intervals, so the driver can ask at any time how far the
tasks have got. The estimate is the same in every run, because the sum does not depend on the order of the tasks.

Prints:

    80000 of 80000 darts thrown by 8 tasks
    pi is about 3.1373
"""

import random

import ray

TASKS, THROWS, REPORT_EVERY = 8, 10_000, 1_000


@ray.remote
class Progress:
    def __init__(self):
        self.thrown = {}

    def report(self, task, thrown):
        self.thrown[task] = thrown

    def total(self):
        return sum(self.thrown.values())


@ray.remote
def throw(task, progress):
    rng, inside = random.Random(task), 0
    for n in range(1, THROWS + 1):
        x, y = rng.random(), rng.random()
        inside += x * x + y * y <= 1
        if n % REPORT_EVERY == 0:
            ray.get(progress.report.remote(task, n))
    return inside


ray.init(num_cpus=2)

progress = Progress.options(num_cpus=0).remote()
refs = [throw.remote(task, progress) for task in range(TASKS)]

so_far = 0
while so_far < TASKS * THROWS:
    before, so_far = so_far, ray.get(progress.total.remote())
    assert so_far >= before
    ray.wait(refs, num_returns=TASKS, timeout=0.05)
print(f"{so_far} of {TASKS * THROWS} darts thrown by {len(refs)} tasks")
print(f"pi is about {4 * sum(ray.get(refs)) / (TASKS * THROWS):.4f}")

ray.shutdown()
