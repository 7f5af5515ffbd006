"""A tree of actors: a root starts supervisors, which start workers, and each level answers for those below it.

Each supervisor knows only its own workers. When a worker fails, its supervisor replaces it and asks again; the root
never hears of it. An actor's children end with it: when the root ends, so does the tree.

Prints:

    north: 3 workers, 6 jobs, 1 replaced
    south: 3 workers, 6 jobs, 0 replaced
    all results: [0, 1, 4, 9, 16, 25, 36, 49, 64, 81, 100, 121]
    1 root, 2 supervisors, 6 workers
"""

import os

import ray


@ray.remote(num_cpus=0)
class Worker:
    def __init__(self, fragile):
        self.fragile = fragile

    def square(self, n):
        if self.fragile:
            os._exit(1)
        return n * n


@ray.remote(num_cpus=0)
class Supervisor:
    def __init__(self, name, size, fragile):
        self.name, self.replaced, self.jobs = name, 0, 0
        self.workers = [Worker.remote(fragile and i == 0) for i in range(size)]

    def work(self, numbers):
        under_way = [(i % len(self.workers), n) for i, n in enumerate(numbers)]
        refs = [self.workers[i].square.remote(n) for i, n in under_way]
        results = []
        for (i, n), ref in zip(under_way, refs):
            try:
                results.append(ray.get(ref))
            except ray.exceptions.RayActorError:
                results.append(self.retry(i, n))
            self.jobs += 1
        return results

    def retry(self, i, n):
        try:
            return ray.get(self.workers[i].square.remote(n))  # an earlier number may have replaced it already
        except ray.exceptions.RayActorError:
            self.workers[i] = Worker.remote(False)
            self.replaced += 1
            return ray.get(self.workers[i].square.remote(n))

    def report(self):
        return f"{self.name}: {len(self.workers)} workers, {self.jobs} jobs, {self.replaced} replaced", len(
            self.workers
        )


@ray.remote(num_cpus=0)
class Root:
    def __init__(self):
        self.supervisors = [Supervisor.remote("north", 3, True), Supervisor.remote("south", 3, False)]

    def work(self, numbers):
        half = len(numbers) // 2
        shares = [numbers[:half], numbers[half:]]
        return sum(ray.get([s.work.remote(share) for s, share in zip(self.supervisors, shares)]), [])

    def report(self):
        return ray.get([s.report.remote() for s in self.supervisors])


ray.init(num_cpus=2)

root = Root.remote()
results = ray.get(root.work.remote(list(range(12))))
reports = ray.get(root.report.remote())
for text, _ in reports:
    print(text)
print("all results:", results)
print(f"1 root, {len(reports)} supervisors, {sum(size for _, size in reports)} workers")

ray.shutdown()
