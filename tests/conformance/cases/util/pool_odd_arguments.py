"""Chunk sizes and timeouts of the Pool that are odd: which are refused, with which error, and which are taken."""


def run(ctx):
    import math
    import time

    Pool = ctx.sub("util.multiprocessing").Pool
    pool = Pool(processes=2)
    for size in 0, -1, 2, 2.0, "two", True, 100:
        ctx.show(repr(size))
        ctx.raises(lambda: pool.map(math.sqrt, [4, 9], chunksize=size))
        ctx.raises(lambda: list(pool.imap(math.sqrt, [4, 9], chunksize=size)))
        ctx.raises(lambda: sorted(pool.imap_unordered(math.sqrt, [4, 9], chunksize=size)))
    nap = pool.apply_async(time.sleep, (0.1,))
    ctx.show(nap.wait(-1))
    ctx.raises(lambda: nap.get(-1), "TimeoutError")
    ctx.show(nap.get(), nap.get(-1), nap.wait(-1))
    naps = pool.imap(time.sleep, [0.1])
    ctx.raises(lambda: naps.next(timeout=-1), "TimeoutError")
    ctx.show(naps.next(), next(naps, "over"))

    class Sums:
        def __init__(self):
            self.pool = pool

        def double(self, x):
            return 2 * x

        def all(self):
            return self.pool.map(self.double, [1, 2])

    ctx.show(Sums().all())
    pool.terminate()
