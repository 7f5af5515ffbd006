"""CUDA_VISIBLE_DEVICES names a task's or actor's GPUs to it, to its threads and subprocesses, and to nobody else."""
import os
import subprocess
import sys
import threading

INIT = dict(num_cpus=4, num_gpus=3)


def run(ctx):
    ray = ctx.ray

    def seen():
        return os.environ.get("CUDA_VISIBLE_DEVICES")

    @ray.remote
    def look():
        return ray.get_gpu_ids(), seen()

    for options in {"num_gpus": 1}, {"num_gpus": 2}, {"num_gpus": 0.5}, {"num_gpus": 0}, {}:
        ids, value = ray.get(look.options(**options).remote())
        ctx.show(options, len(ids), value == (",".join(map(str, ids)) if ids else None))
    own = look.options(num_gpus=1, runtime_env={"env_vars": {"CUDA_VISIBLE_DEVICES": "7"}})
    ctx.show(ray.get(own.remote())[1])

    @ray.remote(num_gpus=1)
    class Trainer:
        def __init__(self):
            self.first = seen()

        def look(self):
            in_thread = []
            thread = threading.Thread(target=lambda: in_thread.append(seen()))
            thread.start()
            thread.join()
            show = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
            told = subprocess.run([sys.executable, "-c", show], capture_output=True, text=True, check=True).stdout.strip()
            return self.first, seen(), in_thread[0], told, str(ray.get_gpu_ids()[0])

        def child(self):
            return ray.get(look.remote())

    trainers = [Trainer.remote() for _ in range(2)]
    found = sorted(ray.get([trainer.look.remote() for trainer in trainers]))
    ctx.show(len(set(found)), [len(set(values)) for values in found])
    ctx.show(ray.get(trainers[0].child.remote()), seen())
