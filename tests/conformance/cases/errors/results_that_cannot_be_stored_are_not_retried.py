"""retry_exceptions is about the task's own code: a wrong number of results, or one that does not pickle, is final."""

import threading


def run(ctx):
    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.count = 0

        def next(self):
            self.count += 1
            return self.count

    counter = Counter.options(name="attempts").remote()

    def attempts():
        return ray.get(counter.next.remote()) - 1

    @ray.remote(max_retries=2, retry_exceptions=True)
    def give(kind):
        ray.get(ray.get_actor("attempts").next.remote())
        if kind == "lock":
            return threading.Lock()
        if kind == "three":
            return 1, 2, 3
        raise ValueError("again")

    @ray.remote(max_retries=2, retry_exceptions=True)
    def generate():
        ray.get(ray.get_actor("attempts").next.remote())
        raise ValueError("again")
        yield

    before = 0
    for kind, returns in (("lock", 1), ("lock", 2), ("three", 2), ("error", 1)):
        refs = give.options(num_returns=returns).remote(kind)
        ctx.raises(lambda: ray.get(refs), "TypeError", "ValueError")
        after = attempts()
        ctx.show(kind, returns, after - before)
        before = after + 1
    for returns in (1, 2, "dynamic", "streaming"):
        made = generate.options(num_returns=returns).remote()
        for ref in [made] if returns in (1, "dynamic") else made:
            ctx.raises(lambda: ray.get(ref), "ValueError")
        after = attempts()
        ctx.show(returns, after - before)
        before = after + 1
