"""Handles and their methods are values: they pickle, copy, hash by their actor, print as one, and take notes."""
import copy
import pickle


class Worker:
    def double(self, x):
        return 2 * x


def run(ctx):
    ray = ctx.ray
    worker = ray.remote(Worker).remote()
    ctx.show(str(worker) == repr(worker), repr(worker).split(",")[0], worker._actor_id.hex() in repr(worker))
    ctx.show(hash(worker) == hash(worker._actor_id), {worker: 1}[copy.copy(worker)], copy.deepcopy([worker])[0] == worker)
    method = pickle.loads(pickle.dumps(worker.double))
    ctx.show(ray.get(method.remote(4)), ray.get(ray.get(ray.put(worker.double)).remote(5)))
    worker.note = "mine"
    ctx.show(worker.note, hasattr(pickle.loads(pickle.dumps(worker)), "note"))

    class Inner:
        pass

    ctx.show(repr(ray.remote(Inner).remote()).split(",")[0])
    ctx.raises(lambda: pickle.loads(pickle.dumps(worker)).other)
    ctx.raises(lambda: worker.double(3))
