"""get_runtime_context().worker: its mode, and whether it is connected, on the driver, in a task and in an actor."""


def run(ctx):
    ray = ctx.ray

    def facts():
        worker = ray.get_runtime_context().worker
        ids = worker.current_job_id, worker.current_node_id, worker.current_task_id, worker.actor_id
        names = [type(one).__name__ for one in (*ids, worker.placement_group_id)]
        captures = worker.should_capture_child_tasks_in_placement_group
        return type(worker).__name__, worker.mode, worker.connected, names, captures, len(worker.worker_id)

    @ray.remote
    class Actor:
        def facts(self):
            return facts()

    ctx.show("driver", facts())
    ctx.show("task", ray.get(ray.remote(facts).remote()))
    ctx.show("actor", ray.get(Actor.remote().facts.remote()))
