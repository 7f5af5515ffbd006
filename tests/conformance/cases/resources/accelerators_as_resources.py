"""TPU, NPU and the like, given as `resources=`: each task is told its devices, as ids and in the library's variable."""

import os

ALL = ("FURIOSA", "HPU", "MBLT", "NPU", "RBLN", "TTNPU", "neuron_cores", "TPU")
INIT = {"num_cpus": 8, "num_gpus": 4, "resources": {**dict.fromkeys(ALL, 4), "chips": 4}}
VARIABLES = (
    "ASCEND_RT_VISIBLE_DEVICES",
    "CUDA_VISIBLE_DEVICES",
    "FURIOSA_DEVICES",
    "HABANA_VISIBLE_MODULES",
    "NEURON_RT_VISIBLE_CORES",
    "QBRUNTIME_VISIBLE_DEVICES",
    "RBLN_DEVICES",
    "TPU_CHIPS_PER_HOST_BOUNDS",
    "TPU_HOST_BOUNDS",
    "TPU_VISIBLE_CHIPS",
    "TT_VISIBLE_DEVICES",
)


def run(ctx):
    ray = ctx.ray

    def look():
        ids = ray.get_runtime_context().get_accelerator_ids()
        # On Ray, a worker that is used again may still have the variables of its last TPU task.
        stale = () if ids["TPU"] else ("TPU_CHIPS_PER_HOST_BOUNDS", "TPU_HOST_BOUNDS", "TPU_VISIBLE_CHIPS")
        variables = {name: os.environ[name] for name in VARIABLES if name in os.environ and name not in stale}
        return {name: sorted(found) for name, found in sorted(ids.items()) if found}, variables

    task = ray.remote(look)
    for name in ("chips", *ALL):
        for amount in (1, 2, 3, 4, 0.5, 1.5):
            if name == "TPU" and amount == 4:
                continue  # for the same reason
            options = {"resources": {name: amount}}
            try:
                ctx.show(name, amount, ray.get(task.options(**options).remote(), timeout=60))
            except Exception as error:
                ctx.show(name, amount, next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins"))
    ctx.show(ray.get(task.options(num_gpus=1, resources={"HPU": 1, "NPU": 2}).remote()))
    own = {"env_vars": {"ASCEND_RT_VISIBLE_DEVICES": "7"}}
    ctx.show(ray.get(task.options(resources={"NPU": 1}, runtime_env=own).remote()))
    own = {"env_vars": {"RBLN_DEVICES": "a"}}
    ctx.show(ray.get(task.options(resources={"RBLN": 1}, runtime_env=own).remote()))
    own = {"env_vars": {"RAY_EXPERIMENTAL_NOSET_HABANA_VISIBLE_MODULES": "1"}}
    ctx.show(ray.get(task.options(resources={"HPU": 2}, runtime_env=own).remote()))
    ctx.show({name: found for name, found in ray.get_runtime_context().get_accelerator_ids().items() if found})

    @ray.remote(num_cpus=0, resources={"NPU": 1})
    class Actor:
        def look(self):
            return look()

        def child(self):
            return ray.get(task.options(num_gpus=1).remote()), ray.get(task.options(resources={"NPU": 1}).remote())

    first, second = Actor.remote(), Actor.remote()
    ctx.show(ray.get(first.look.remote()), ray.get(second.look.remote()))
    ctx.show(ray.get(first.child.remote()))
    ctx.show(ray.get(Actor.options(resources={"NPU": 2}).remote().look.remote()))

    group = ctx.sub("util").placement_group([{"CPU": 1, "RBLN": 1}, {"CPU": 1, "TTNPU": 2}])
    ray.get(group.ready())
    strategy = ctx.sub("util.scheduling_strategies").PlacementGroupSchedulingStrategy
    ctx.show(ray.get(task.options(resources={"RBLN": 1}, scheduling_strategy=strategy(group)).remote()))
    ctx.show(ray.get(task.options(resources={"TTNPU": 2}, scheduling_strategy=strategy(group, 1)).remote()))
    ctx.show(sorted(ray.cluster_resources().get(name, 0) for name in ALL))
