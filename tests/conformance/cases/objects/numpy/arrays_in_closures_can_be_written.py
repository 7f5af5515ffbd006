"""A task's or actor's own copy of an array that its code closes over can be written to; the driver's is not changed."""
import numpy as np

TABLE = np.zeros(3, dtype=int)
FIXED = np.zeros(3, dtype=int)
FIXED.setflags(write=False)


def run(ctx):
    ray = ctx.ray
    weights = np.arange(4)

    @ray.remote
    def change():
        weights[0] = 5
        TABLE[1] = 7
        return weights, TABLE, FIXED.flags.writeable

    @ray.remote(num_cpus=0)
    class Keeper:
        start = np.ones(2, dtype=int)

        def add(self):
            self.start += 1
            return self.start

    ctx.show(*ray.get(change.remote()), weights, TABLE)
    keeper = Keeper.remote()
    ctx.show(ray.get(keeper.add.remote()), ray.get(keeper.add.remote()), ray.get(Keeper.remote().add.remote()))
