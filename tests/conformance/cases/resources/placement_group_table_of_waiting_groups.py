"""What placement_group_table says of groups that are placed, wait for room, fit nowhere, and were removed."""
import time

INIT = dict(num_cpus=2)


def run(ctx):
    ray, util = ctx.ray, ctx.sub("util")
    groups = {"placed": ray.util.placement_group([{"CPU": 1}, {"CPU": 1}], strategy="STRICT_PACK", name="placed")}
    ray.get(groups["placed"].ready())
    groups["waits"] = ray.util.placement_group([{"CPU": 2}], strategy="SPREAD", name="waits")
    groups["huge"] = ray.util.placement_group([{"CPU": 64}], name="huge")

    def show(name, state):
        for _ in range(100):
            row = util.placement_group_table(groups[name])
            if row["stats"]["scheduling_state"] == state:
                break
            time.sleep(0.1)
        ctx.show(row["name"], row["state"], row["strategy"], row["bundles"], row["stats"]["scheduling_state"])
        return row

    placed = show("placed", "FINISHED")
    ctx.show(sorted(placed), sorted(placed["stats"]))
    ctx.show(set(placed["bundles_to_node_id"].values()) == {ray.get_runtime_context().get_node_id()})
    show("waits", "NO_RESOURCES")
    huge = show("huge", "INFEASIBLE")
    ctx.show(huge["bundles_to_node_id"])
    util.remove_placement_group(groups["placed"])
    show("placed", "REMOVED")
    show("waits", "FINISHED")
