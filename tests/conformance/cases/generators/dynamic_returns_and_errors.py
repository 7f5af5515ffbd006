"""With num_returns="dynamic" an error is one more reference behind those that were yielded."""
import threading


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def fail_after(count):
        for number in range(count):
            yield number
        raise ValueError("no more")

    @ray.remote
    def with_a_lock():
        yield 1
        yield threading.Lock()
        yield 3

    @ray.remote(max_retries=2, retry_exceptions=True)
    def third_time(name, good):
        attempt = ray.get(ray.get_actor(name).next.remote())
        yield attempt
        if attempt < good:
            raise ValueError("again")
        yield "done"

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self):
            self.count = 0

        def next(self):
            self.count += 1
            return self.count

    def of(refs):
        found = []
        for ref in refs:
            try:
                found.append(ray.get(ref))
            except Exception as error:
                found.append(type(error).__name__)
        return found

    for count in range(3):
        ctx.show(of(ray.get(fail_after.options(num_returns="dynamic").remote(count))))
    ctx.show(of(ray.get(with_a_lock.options(num_returns="dynamic").remote())))
    counter = Counter.options(name="attempts").remote()
    ctx.show(of(ray.get(third_time.options(num_returns="dynamic").remote("attempts", 3))), ray.get(counter.next.remote()))
    ctx.raises(lambda: ray.get(third_time.options(num_returns="dynamic").remote("attempts", 99)), "ValueError")
    ctx.show(ray.get(counter.next.remote()))
    last = third_time.options(num_returns="dynamic", max_retries=0).remote("attempts", 99)
    ctx.raises(lambda: ray.get(last), "ValueError")
