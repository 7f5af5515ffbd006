"""What an actor's method learns from the runtime context: ids as text and as objects, names, resources, its environment."""

INIT = dict(num_cpus=2, num_gpus=1, runtime_env={"env_vars": {"JOB": "1"}}, namespace="here")


def run(ctx):
    ray = ctx.ray

    class Worker:
        def about(self):
            here = ray.get_runtime_context()
            return [type(x).__name__ for x in (here.job_id, here.node_id, here.task_id, here.actor_id, here.runtime_env)] + [
                here.actor_id.hex() == here.get_actor_id(), here.task_id.hex() == here.get_task_id(), sorted(here.get()),
                here.get_actor_name(), here.get_task_name(), here.get_task_function_name().split(".")[1:], here.namespace]

        def given(self):
            here = ray.get_runtime_context()
            ids = here.get_accelerator_ids()
            return (here.get_assigned_resources(), ids["GPU"], sorted(ids), dict(here.runtime_env),
                    here.current_placement_group_id.is_nil(), here.get_placement_group_id(), here.current_actor == here.current_actor)

    class AsyncWorker(Worker):
        async def wait(self):
            pass

    worker = ray.remote(num_gpus=1, name="one", runtime_env={"env_vars": {"OWN": "2"}})(Worker).remote()
    for line in ray.get([worker.about.remote(), worker.given.remote()]):
        ctx.show(line)
    ctx.show(ray.get(ray.remote(AsyncWorker).remote().about.options(name="renamed").remote()))
    driver = ray.get_runtime_context()
    ctx.show(driver.get_actor_id(), driver.get_actor_name(), driver.get_task_id(), sorted(driver.get()), driver.runtime_env)
    ctx.show(driver.node_id.hex() == driver.get_node_id(), driver.job_id.hex(), driver.get_runtime_env_string())
    for name in "task_id", "actor_id", "current_actor", "was_current_actor_reconstructed":
        ctx.raises(lambda: getattr(driver, name))
    ctx.raises(lambda: driver.get_assigned_resources())
