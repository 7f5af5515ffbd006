"""With num_returns=n what was yielded stands, and an error, or the end, fails the other returns; one more item is asked for."""
import threading


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def fail_after(count):
        for number in range(count):
            yield number
        raise ValueError("no more")

    @ray.remote
    def count_to(count):
        yield from range(count)

    @ray.remote
    def with_a_lock():
        yield 1
        yield threading.Lock()
        yield 3

    @ray.remote
    def tuple_with_a_lock():
        return 1, threading.Lock(), 3

    @ray.remote(num_cpus=0)
    class Maker:
        def fail_after(self, count):
            for number in range(count):
                yield number
            raise KeyError("no more")

    def of(refs):
        found = []
        for ref in refs:
            try:
                found.append(ray.get(ref))
            except Exception as error:
                found.append(type(error).__name__)
        return found

    for wanted in (2, 3):
        ctx.show(wanted, [of(fail_after.options(num_returns=wanted).remote(count)) for count in range(4)])
        ctx.show(wanted, [of(count_to.options(num_returns=wanted).remote(count)) for count in range(5)])
    ctx.show(of([fail_after.options(num_returns=1).remote(1)]), of([fail_after.options(num_returns=1).remote(0)]))
    ctx.show(of(with_a_lock.options(num_returns=3).remote()), of(tuple_with_a_lock.options(num_returns=3).remote()))
    ctx.show(of(Maker.remote().fail_after.options(num_returns=3).remote(1)))
