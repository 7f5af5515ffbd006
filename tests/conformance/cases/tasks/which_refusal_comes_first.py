"""At .remote(): reserved names and placement groups, then wrong arguments, then other options, then what cannot be sent."""
import threading


def run(ctx):
    ray = ctx.ray

    def plain(x=1):
        return x

    class Plain:
        def __init__(self, x=1):
            pass

    wrong = [dict(num_gpus=1.5), dict(resources={1: 1}), dict(scheduling_strategy="x"), dict(resources={"bundle": 1}),
             dict(placement_group="x"), dict(placement_group_bundle_index=0), dict(_labels={"a": 1}), dict(num_cpus=0.5)]
    for options in wrong:
        ctx.show(options)
        task, actor = ray.remote(**options)(plain), ray.remote(**options)(Plain)
        for call in (task.remote, actor.remote):
            ctx.raises(lambda: call(1, 2))
            ctx.raises(lambda: call(threading.Lock()))
    for options in (dict(name=""), dict(namespace=""), dict(name="", num_gpus=1.5)):
        ctx.show(options)
        ctx.raises(lambda: ray.remote(**options)(Plain).remote(1, 2))
