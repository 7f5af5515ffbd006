"""An id that is no text is an error for some tables, and bytes in a filter are text."""

INIT = dict(num_cpus=1, include_dashboard=True)


def run(ctx):
    state = ctx.sub("util.state")
    for what in ["task", "actor", "node", "worker", "placement_group", "objects", "job"]:
        ctx.show(what)
        for ident in [None, 0, 1.5, True, [], {}, (), b"", "x"]:
            ctx.raises(lambda: getattr(state, f"get_{what}")(ident))
    for what in ["tasks", "actors", "nodes", "objects", "placement_groups"]:
        ctx.show(what)
        for key, value in [("state", b"alive"), (b"state", "ALIVE"), ("state", ["a"]), ("state", None), (3, "a"), ("nothing", b"a")]:
            ctx.raises(lambda: type(getattr(state, f"list_{what}")(filters=[(key, "=", value)])), "ValueError")
        ctx.raises(lambda: type(getattr(state, f"list_{what}")(filters=[("nothing", b"=", "a")])), "ValueError")
