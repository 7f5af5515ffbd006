"""The memory of an array that was put, passed, returned or yielded begins at a multiple of 64 bytes."""


def run(ctx):
    import numpy as np

    ray = ctx.ray
    shapes = [(1,), (7,), (64,), (100, 3), (1000,), (20, 30, 5), (300, 300), (1000, 1000)]

    def all_aligned(arrays):
        return all(array.ctypes.data % 64 == 0 and not array.flags.writeable for array in arrays)

    def ones():
        return [np.ones(shape, kind) for shape in shapes for kind in ("f8", "i2", "?") for _ in range(3)]

    @ray.remote
    def aligned(*arrays):
        return all(array.ctypes.data % 64 == 0 for array in arrays)

    @ray.remote
    def make():
        return ones()

    @ray.remote
    def items():
        for array in ones():
            yield array

    refs = [ray.put(array) for array in ones()]
    ctx.show(all_aligned(ray.get(refs)), ray.get(aligned.remote(*refs)))
    ctx.show(ray.get(aligned.remote(*ones())), all_aligned(ray.get(list(items.remote()))))
    ctx.show(all_aligned(ray.get(make.options(num_returns=len(refs)).remote())))
    once = ray.get(refs[0])
    ctx.show(all_aligned([ray.get(ray.put(once[:])), ray.get(ray.put(np.arange(100)[3:50]))]))
    ctx.show(all_aligned([ray.get(ray.put(np.empty((0, 3))))]))
