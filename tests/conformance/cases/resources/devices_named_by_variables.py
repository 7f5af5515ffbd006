"""A variable such as CUDA_VISIBLE_DEVICES that is set before `init` names the devices that the tasks are given."""

import os

INIT = None
VARIABLES = {"ASCEND_RT_VISIBLE_DEVICES": "5,6", "CUDA_VISIBLE_DEVICES": "3,GPU-b", "FURIOSA_DEVICES": "npu:4,npu:9"}


def run(ctx):
    ray = ctx.ray

    def look():
        ids = ray.get_runtime_context().get_accelerator_ids()
        variables = {name: sorted(os.environ.get(name, "").split(",")) for name in sorted(VARIABLES)}
        return {name: sorted(found) for name, found in sorted(ids.items()) if found}, variables

    def start(**resources):
        ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, **resources)
        if not resources.pop("started", False):
            ray.shutdown()

    os.environ.update(VARIABLES)
    try:
        ray.init(num_cpus=2, num_gpus=2, resources={"NPU": 2, "FURIOSA": 2}, include_dashboard=False, log_to_driver=False)
        task = ray.remote(look)
        ctx.show(ray.get(task.remote()))
        ctx.show(ray.get(task.options(num_gpus=2).remote()))
        ctx.show(ray.get(task.options(resources={"NPU": 2}).remote()))
        ctx.show(ray.get(task.options(resources={"FURIOSA": 2}).remote()))
        ctx.show(ray.get(ray.remote(num_gpus=2)(lambda: sorted(ray.get_gpu_ids())).remote()), ray.get_gpu_ids())
        ray.shutdown()
        del os.environ["ASCEND_RT_VISIBLE_DEVICES"], os.environ["FURIOSA_DEVICES"]
        ctx.raises(lambda: start(num_gpus=3), "ValueError")
        ctx.raises(lambda: start(num_gpus=1))
        os.environ["CUDA_VISIBLE_DEVICES"] = ""
        ctx.raises(lambda: start(num_gpus=1), "ValueError")
        del os.environ["CUDA_VISIBLE_DEVICES"]
        os.environ["TPU_VISIBLE_CHIPS"] = "2"
        ctx.raises(lambda: start(resources={"TPU": 2}), "ValueError")
        ctx.raises(lambda: start(resources={"TPU": 1}))
    finally:
        for name in (*VARIABLES, "TPU_VISIBLE_CHIPS"):
            os.environ.pop(name, None)
