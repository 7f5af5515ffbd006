"""bind refuses at once what a call could not be sent with, wherever it is inside the arguments; other nodes are no hindrance."""

import threading


class Holder:
    def __init__(self, thing):
        self.thing = thing


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def count(*args, **kwargs):
        return len(args) + len(kwargs)

    @ray.remote(num_cpus=0)
    class Counter:
        def __init__(self, start=0):
            self.count = start

        def add(self, amount):
            return amount

    lock, counter = threading.Lock(), Counter.remote()
    for bind in (count.bind, count.options(num_cpus=0.5).bind, Counter.bind, Counter.bind().add.bind, counter.add.bind):
        ctx.raises(lambda: bind(lock), "TypeError")
    for thing in ([lock], {"a": (1, lock)}, Holder(lock), lambda: lock, (number for number in [])):
        ctx.raises(lambda: count.bind(1, x=thing), "TypeError")
    good = [
        count.bind(1),
        [count.bind()],
        Holder(count.bind(1, 2)),
        ray.put(1),
        counter,
        count,
        Counter,
        threading,
        lambda: 1,
    ]
    ctx.show(ray.get(count.bind(*good, x=good[1]).execute()))
    ctx.show([type(count.bind(thing)).__name__ for thing in good])
