"""The end of a random run: everything that can still happen happens, and whatever is left must have a reason to
wait."""

from __future__ import annotations

from typing import TYPE_CHECKING

from miniray.core.records import (
    ACTOR_CREATION_TASK,
    ACTOR_TASK,
    ObjectRecord,
    SchedulingClass,
    TaskRecord,
    units,
)
from miniray.core.transitions import ActorStatus, PlacementGroupStatus, TaskStatus, WorkerStatus
from tests.core.builders import HUGE
from tests.core.fake_runtime import THERE

if TYPE_CHECKING:
    from tests.core.random_events import RandomEvents

OVER = (TaskStatus.FINISHED, TaskStatus.FAILED)


def end(game: RandomEvents) -> None:
    """Give the cluster room for everything, let it run, end the program, and look at what is left."""
    runtime, cluster = game.runtime, game.cluster
    for labels in ({"zone": "a"}, {"zone": "b"}, {}, {}, {}):
        game.last_node += 1
        runtime.tell(cluster.add_node, game.last_node, units({"CPU": 64, "GPU": 16, "fast": 4}), labels, HUGE)
    settle(game)
    for task in unfinished(game):
        assert waits_for_a_reason(game, task), f"{task!r} waits for nothing: {task.spec.scheduling_class}"
    for group in game.groups:
        runtime.tell(cluster.remove_placement_group, group)
    for task in unfinished(game):
        if task.status not in OVER and task.spec.kind != ACTOR_CREATION_TASK:  # the end of one may have ended another
            runtime.tell(cluster.cancel, task, False, False)
    settle(game)
    for program, wait in list(runtime.waiting.values()):
        if not wait.objects and program.task.stream.refs:
            continue  # a generator waits for its consumer; it goes on when the driver drops the stream
        assert wait.waiter.need > 0 and program is runtime.driver, f"{program} was not woken"
        runtime.stop_waiting(program, wait)
    runtime.drop_all(runtime.driver)
    runtime.tell(cluster.settled)
    settle(game)
    assert not runtime.waiting, f"{[program for program, _ in runtime.waiting.values()]} were not woken"
    for actor in [actor for actor in cluster.actors.values() if actor.detached]:
        runtime.tell(cluster.kill_actor, actor)
    settle(game)
    nothing_is_left(game)


def settle(game: RandomEvents) -> None:
    """Without new work: actions are carried out, woken programs resume, and running ones return."""
    while any(
        [game.carry_out(), game.worker_starts(), game.file_is_done(), game.resume(), game.timer(), game.finish()]
    ):
        game.check()


def unfinished(game: RandomEvents) -> list[TaskRecord]:
    """The tasks that are not over."""
    return [task for task in game.cluster.tasks.values() if task.status not in OVER]


def nothing_is_left(game: RandomEvents) -> None:
    """Every resource is free, every object gone, every task over, every actor dead, and every record accounted for."""
    cluster = game.cluster
    game.check()
    for task in cluster.tasks.values():
        assert task.status in OVER, f"{task!r} is left"
    for actor in cluster.actors.values():
        assert actor.status is ActorStatus.DEAD, f"{actor!r} outlives its program"
    for node in cluster.scheduler.alive:
        assert node.available == node.total, f"{node!r} misses some of its resources: {node.available} of {node.total}"
        assert node.store.used == node.store.spilled == 0, (
            f"the store of {node!r} keeps {list(node.store.objects.values())}"
        )
    for worker in cluster.workers.values():
        assert worker.status in (WorkerStatus.DEAD, WorkerStatus.IDLE), f"{worker!r} is left"
    assert not cluster.objects, f"objects are left: {list(cluster.objects.values())}"
    assert not any(group.status is PlacementGroupStatus.CREATED for group in cluster.placement_groups.values())
    assert len(cluster.tasks) + cluster.dropped["tasks"] == game.submitted, (
        "finished tasks were dropped and not counted"
    )


# ---------------------------------------------------------------- reasons to wait


def waits_for_a_reason(game: RandomEvents, task: TaskRecord) -> bool:
    """Whether the task waits for something that nobody can provide, or for somebody who waits for such a thing.

    Examples are a group or a node that is gone, and a call that waits for its own actor.
    """
    if task.status is TaskStatus.PENDING_ARGS_AVAIL:
        return any(never_comes(game, dep) for dep in task.deps)
    if task.worker is not None:
        return code_waits(game, task)
    if task.spec.kind == ACTOR_TASK:
        creation, calls = task.actor.creation, task.actor.calls.values()
        return (
            creation.status not in OVER
            and waits_for_a_reason(game, creation)
            or any(waits_for_a_reason(game, call) for call in calls if call.worker is not None or call.pending)
        )
    wanted = task.spec.scheduling_class
    if wanted in game.cluster.scheduler.infeasible:
        return wanted.group is not None or wanted.strategy[0] == "NODE_AFFINITY"
    return somebody_stays(game, wanted)


def never_comes(game: RandomEvents, obj: ObjectRecord) -> bool:
    """Whether the object has no value because its task waits for a reason."""
    if obj.task is None:
        return obj.status not in THERE
    return obj.task.status not in OVER and waits_for_a_reason(game, obj.task)


def code_waits(game: RandomEvents, task: TaskRecord) -> bool:
    """Whether the task's code is in get or wait, and has not been woken."""
    program = game.runtime.programs[task.worker.number, task.number]
    return any(not wait.woken for wait in program.waits)


def somebody_stays(game: RandomEvents, wanted: SchedulingClass) -> bool:
    """Whether the resources that the class needs stay taken, or are too few.

    An actor, a group or a waiting task may hold the bundles of the class, or the node that it prefers. A bundle may
    also be too small.
    """
    if wanted.group is not None:
        return any(
            bundle.available != bundle.total or not bundle.total.get("CPU", 0) >= wanted.need.get("CPU", 0)
            for bundle in wanted.group.bundles
        )
    return wanted.strategy[0] == "NODE_AFFINITY" and any(
        node.available != node.total for node in game.cluster.nodes.values() if node.hex == wanted.strategy[1]
    )
