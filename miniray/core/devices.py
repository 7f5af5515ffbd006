"""The single devices of GPUs and other accelerators: which of them a worker gets.

They are counted as any resource is, and also one by one, because a task is told which devices it may use. A demand of
one or more takes devices that are wholly free. A fraction shares the fullest device that has enough left. Two half-free
GPUs do not make a free one, so `pick` may refuse a node with enough in sum.

Ray: raylet/scheduling/local_resource_manager.h, NodeResourceInstanceSet.
"""

from __future__ import annotations

from .records import NO_DEVICES, UNIT, Devices, NodeRecord, SchedulingClass, WorkerRecord


def pick(node: NodeRecord, wanted: SchedulingClass) -> Devices | None:
    """The devices that the node would give for this demand. None if it cannot."""
    picked: Devices = {}
    for name, amount in wanted.devices.items():
        free = node.free_devices.get(name, {})
        if amount >= UNIT:
            whole = [index for index, left in free.items() if left == UNIT]
            if len(whole) < amount // UNIT:
                return None
            picked[name] = tuple(whole[: amount // UNIT])
        else:
            partly = [(left, index) for index, left in free.items() if left >= amount]
            if not partly:
                return None
            picked[name] = (min(partly)[1],)
    return picked


def take(worker: WorkerRecord, wanted: SchedulingClass) -> None:
    """Give the worker the devices of its new lease. `pick` must have found some."""
    picked = pick(worker.node, wanted)
    assert picked is not None
    worker.devices = picked
    for name, indices in picked.items():
        for index in indices:
            worker.node.free_devices[name][index] -= min(UNIT, wanted.devices[name])


def give_back(worker: WorkerRecord, wanted: SchedulingClass) -> None:
    """Return the devices of the worker's lease, which was for this demand."""
    for name, indices in worker.devices.items():
        for index in indices:
            worker.node.free_devices[name][index] += min(UNIT, wanted.devices[name])
    worker.devices = NO_DEVICES
