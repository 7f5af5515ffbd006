"""The labels of a call are checked and the call runs; the object store is not the name of a tensor transport."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    class Counter:
        def one(self):
            return 1

    @ray.remote
    def task():
        return 1

    actor = Counter.remote()
    for labels in [None, {}, {"a": "b"}, {"a": 1}, {1: "a"}, {"": ""}, [], "x", 3]:
        ctx.show(labels)
        ctx.raises(lambda: ray.get(actor.one.options(_labels=labels).remote()))
    for labels in [{1: "a"}, {None: "a"}, {"a": b"b"}]:
        for option in ["_labels", "label_selector"]:
            ctx.show(option, labels)
            ctx.raises(lambda: task.options(**{option: labels}).remote())
            ctx.raises(lambda: Counter.options(num_cpus=0, **{option: labels}).remote())
    for transport in ["object_store", "OBJECT_STORE", "nothing", 3]:
        ctx.show(transport)
        ctx.raises(lambda: actor.one.options(tensor_transport=transport))
        ctx.raises(lambda: ray.put(1, _tensor_transport=transport))
