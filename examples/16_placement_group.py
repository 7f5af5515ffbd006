"""A placement group: resources reserved together, all or none, before anything runs in them.

Two workers that must run at the same time need both their CPUs. If each took one and waited for the other, they could
wait forever. The group reserves all its bundles at once. Tasks and actors are then placed in a bundle.

Prints:

    reserved: CREATED [{'CPU': 1.0}, {'CPU': 1.0}]
    the two workers of the group: ['left in bundle 0', 'right in bundle 1']
    a group that asks for 3 CPUs of 2 is not ready: PENDING
    the groups are removed, and their CPUs are free: ready
"""

import miniray as ray
from miniray.util import placement_group, placement_group_table, remove_placement_group
from miniray.util.scheduling_strategies import PlacementGroupSchedulingStrategy


@ray.remote(num_cpus=1)
class Worker:
    def __init__(self, name, bundle):
        self.name, self.bundle = name, bundle

    def describe(self):
        assert ray.util.get_current_placement_group() is not None
        return f"{self.name} in bundle {self.bundle}"


@ray.remote(num_cpus=2)
def whole_machine():
    return "ready"


ray.init(num_cpus=2)

group = placement_group([{"CPU": 1}, {"CPU": 1}], strategy="PACK")
ray.get(group.ready())
row = placement_group_table(group)
print("reserved:", row["state"], [row["bundles"][index] for index in sorted(row["bundles"])])

workers = [
    Worker.options(
        scheduling_strategy=PlacementGroupSchedulingStrategy(placement_group=group, placement_group_bundle_index=bundle)
    ).remote(name, bundle)
    for bundle, name in enumerate(["left", "right"])
]
print("the two workers of the group:", ray.get([worker.describe.remote() for worker in workers]))

greedy = placement_group([{"CPU": 2}, {"CPU": 1}])
assert not greedy.wait(0.1)
print("a group that asks for 3 CPUs of 2 is not ready:", placement_group_table(greedy)["state"])

remove_placement_group(greedy)
remove_placement_group(group)  # this also ends the actors in it
print("the groups are removed, and their CPUs are free:", ray.get(whole_machine.remote()))

ray.shutdown()
