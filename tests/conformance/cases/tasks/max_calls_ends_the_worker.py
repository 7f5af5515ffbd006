"""After max_calls calls of a function its worker ends, and its globals with it; a function that asks for a GPU has 1 by default."""
INIT = dict(num_cpus=2, num_gpus=1)
COUNT = 0


def run(ctx):
    ray = ctx.ray

    def count():
        global COUNT
        COUNT += 1
        return COUNT, ray.get_runtime_context().get_worker_id()

    for options in (dict(max_calls=1), dict(max_calls=2), dict(num_gpus=1), dict(num_gpus=0.5), dict(num_gpus=1, max_calls=0),
                    dict(max_calls=0)):
        task = ray.remote(**options)(count)
        answers = [ray.get(task.remote()) for _ in range(4)]
        ctx.show(options, [number for number, _ in answers], len({worker for _, worker in answers}))

    @ray.remote(num_cpus=0)
    class Seen:
        def __init__(self):
            self.workers = []

        def add(self, worker):
            self.workers.append(worker)
            return len(self.workers), len(set(self.workers))

    @ray.remote(max_calls=1)
    def fail(seen):
        ray.get(seen.add.remote(ray.get_runtime_context().get_worker_id()))
        raise ValueError("as it should")

    @ray.remote(max_calls=1)
    def put():
        return ray.put([1, 2]), ray.put(b"x" * 200_000)

    @ray.remote(max_calls=1)
    def stream():
        yield 1
        yield 2

    seen = Seen.remote()
    for _ in range(3):
        ctx.raises(lambda: ray.get(fail.remote(seen)), "ValueError")
    ctx.show(ray.get(seen.add.remote("nobody")))
    small, large = ray.get(put.remote())
    ctx.show(ray.get(list(stream.remote())), ray.get(list(stream.remote())), ray.get(small), len(ray.get(large)))
