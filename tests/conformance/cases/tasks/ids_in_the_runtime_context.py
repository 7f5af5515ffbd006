"""The older properties of the runtime context hold id objects; get() lists those that there are."""


def run(ctx):
    ray = ctx.ray

    def ids():
        context = ray.get_runtime_context()
        found = {name: (type(value).__name__, value.hex()) for name, value in context.get().items() if name != "namespace"}
        same = [found[name][1] == getattr(context, "get_" + name)() for name in sorted(found)]
        return {name: kind for name, (kind, _) in sorted(found.items())}, same, type(context.job_id).__name__

    @ray.remote
    def in_task():
        context = ray.get_runtime_context()
        return ids(), type(context.task_id).__name__, context.actor_id, context.get_task_function_name().split(".")[-1]

    @ray.remote
    class Asker:
        def ask(self):
            context = ray.get_runtime_context()
            return ids(), type(context.actor_id).__name__, context.get_task_function_name().split(".", 1)[1]

    ctx.show(ids())
    context = ray.get_runtime_context()
    ctx.raises(lambda: context.task_id)
    ctx.raises(lambda: context.actor_id)
    ctx.show(ray.get(in_task.remote()))
    ctx.show(ray.get(Asker.remote().ask.remote()))
    ctx.show(sorted(context.get_accelerator_ids()), ray.JobID.from_hex("01000000"), ray.NodeID.from_random().is_nil())
