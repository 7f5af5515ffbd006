"""A reference or a handle that a program pickles with ray.cloudpickle is kept for the life of the worker that did it."""


def run(ctx):
    import io
    import pickle
    import time

    ray, cloudpickle = ctx.ray, ctx.sub("cloudpickle")

    @ray.remote(num_cpus=0)
    class Maker:
        def ping(self):
            return "pong"

        def make(self):
            return cloudpickle.dumps([ray.put(["by an actor"])])

    @ray.remote
    def made():
        return ["made"]

    @ray.remote
    def task():
        return cloudpickle.dumps({"put": ray.put(["by a task"]), "made": made.remote()})

    def pickled(value, dumps=cloudpickle.dumps):
        return dumps(ray.put(value))

    data = pickled(["by the driver"])
    time.sleep(0.3)
    ctx.show(ray.get(cloudpickle.loads(data), timeout=10), ray.get(pickle.loads(data), timeout=10))
    file = io.BytesIO()
    cloudpickle.CloudPickler(file).dump([ray.put(["in a file"])])
    time.sleep(0.3)
    ctx.show(ray.get(pickle.loads(file.getvalue())[0], timeout=10))
    found = cloudpickle.loads(ray.get(task.remote()))
    ctx.show(ray.get([found["put"], found["made"]], timeout=10))
    maker = Maker.remote()
    (ref,) = cloudpickle.loads(ray.get(maker.make.remote()))
    ctx.show(ray.get(ref, timeout=10))
    handle = cloudpickle.dumps(Maker.remote())
    time.sleep(0.3)
    ctx.show(ray.get(cloudpickle.loads(handle).ping.remote(), timeout=10))
    data = ray.get(maker.make.remote())
    ray.kill(maker)
    time.sleep(1)
    ctx.raises(lambda: ray.get(cloudpickle.loads(data)[0], timeout=10), "OwnerDiedError", "ObjectLostError")
    ref = ray.put(["alive"])
    ctx.show(ray.get(pickle.loads(pickle.dumps(ref)), timeout=10))
    data = pickled(["by plain pickle"], pickle.dumps)
    time.sleep(0.3)
    ctx.raises(lambda: ray.get(pickle.loads(data), timeout=1), "GetTimeoutError")
    done = []
    ref._on_completed(done.append)
    made.remote()._on_completed(done.append)
    deadline = time.monotonic() + 10
    while len(done) < 2 and time.monotonic() < deadline:
        time.sleep(0.01)
    ctx.show(sorted(done))
