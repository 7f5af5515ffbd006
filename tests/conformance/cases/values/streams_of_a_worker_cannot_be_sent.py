"""The streams of a worker are files that are open for writing: none of them can be a value."""


def run(ctx):
    ray = ctx.ray

    def stream(name):
        import sys

        return getattr(sys, name)

    def inside(name):
        import sys

        return {"streams": [getattr(sys, name)]}

    def put(name):
        import sys

        return ray.put(getattr(sys, name))

    def dumped(name):
        import pickle
        import sys

        return pickle.dumps(getattr(sys, name))

    for name in ["stdout", "stderr", "stdin", "__stdout__", "__stderr__"]:
        for task in stream, inside, put, dumped:
            ctx.show(name, task.__name__)
            ctx.raises(lambda: ray.get(ray.remote(task).remote(name)))
