"""get_log refuses arguments of a wrong type with a ValueError."""

INIT = dict(num_cpus=1, include_dashboard=True)


def run(ctx):
    get_log = ctx.sub("util.state").get_log
    here = ctx.ray.get_runtime_context().gcs_address  # other sessions may run on this machine
    node = ctx.ray.nodes()[0]["NodeID"]
    for arguments in (
        dict(task_id=5),
        dict(task_id=["x"]),
        dict(actor_id=5),
        dict(actor_id={}),
        dict(filename=5, node_id=node),
        dict(filename="x", node_id=5),
        dict(filename="x", node_ip=5),
        dict(task_id="zz", node_id=5),
        dict(submission_id=5),
        dict(task_id="zz", timeout="x"),
        dict(task_id="zz", attempt_number="x"),
        dict(task_id="zz", attempt_number=0.5),
        dict(task_id="zz", attempt_number=None),
        dict(task_id="zz", tail=None),
        dict(pid="x", node_id=node),
        dict(task_id=None),
        dict(task_id=""),
    ):
        ctx.show({name: "NODE" if value == node else value for name, value in arguments.items()})
        ctx.raises(lambda: "".join(get_log(here, **arguments)), "ValueError")
