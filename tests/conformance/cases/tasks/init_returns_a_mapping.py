"""What init returns can be read as a mapping; a node without CPUs lists none; what init refuses besides bad amounts."""
INIT = None


def run(ctx):
    ray = ctx.ray
    extra = {"include_dashboard": False, "log_to_driver": False} if ray.__name__ == "ray" else {}
    ctx.raises(lambda: ray.init(address="", **extra))
    ctx.raises(lambda: ray.init(logging_level=None, **extra))
    context = ray.init(num_cpus=0, **extra)
    ctx.show(context["node_id"] == ray.get_runtime_context().get_node_id(), "node_id" in context, "nothing" in context)
    ctx.show(len(context) == len(list(context)) == len(context.keys()), context.get("nothing"), len(context.items()) > 5)
    ctx.raises(lambda: context["nothing"])
    ctx.show(repr(context).split("=")[0], "CPU" in ray.cluster_resources())
    ctx.show(ray.init(ignore_reinit_error=True).keys() == context.keys())
