"""Who holds an object, and what happens when nobody does.

An object lives while an ObjectRef of the program, an unfinished task, or another stored value holds it. What could rebuild a
value (its task's arguments: the lineage) stays while that value, or one made from it, could be lost.
Ray: core_worker/reference_counter.h.
"""

from __future__ import annotations

from collections import deque

from .records import DROPPED, ENDED, LOST, PENDING, READY, RELEASED, ObjectRecord, StreamRecord, TaskRecord
from .tables import Tables
from .transitions import move


class ReferenceCounter:
    """Counts for every object; the cascade when a count reaches zero runs in a worklist, never in recursion."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.freed: list = []  # values to be let go of by the runtime, outside its lock
        self.plain_types: frozenset[type] = frozenset()  # opaque: types whose values run no code when they go
        self._worklist: deque[ObjectRecord] = deque()
        self._running = False

    def drop_stream(self, now: float, stream: StreamRecord) -> None:
        """Nobody will ask for the stream's items any more."""
        stream.refs -= 1
        if stream.refs:
            return
        for index in range(stream.taken, len(stream.items)):
            item, stream.items[index] = stream.items[index], None
            if item is not None:
                item.refs -= 1
                self.check(now, item)
        self.cluster.task_manager.wake_producer(stream)

    def release(self, now: float, gone: list[ObjectRecord]) -> None:
        """The last count of each of these objects went down to zero."""
        objects, outlived = self.cluster.objects, self.cluster.history.outlived
        for obj in gone:
            task = obj.task
            if (
                obj.status is READY
                and obj.locations is None
                and not obj.contained
                and not obj.lineage
                and (obj.actor is None if task is None else task.args is None and task.number not in outlived)
            ):
                if objects.pop(obj.number, None) is obj:  # the common case of _free: a small value, nothing inside
                    if type(obj.value) not in self.plain_types:
                        self.freed.append(obj.value)
                    obj.value = DROPPED
                    move(obj, RELEASED)
                    if task is not None and len(task.returns) == 1:
                        task.returns = ()  # they refer to each other: the cyclic collector need not come for them
            else:
                self.check(now, obj)

    def take_freed(self) -> list:
        """Values that nobody can reach any more. The runtime drops them after it has released its lock."""
        freed = self.freed
        if freed:
            self.freed = []
        return freed

    def check(self, now: float, obj: ObjectRecord) -> None:
        """One of its counts went down: let it go when nothing holds it."""
        if obj.refs or obj.uses or obj.held:
            return
        if obj.actor is not None and obj.actor.handle is obj:
            self.cluster.actor_manager.handles_gone(now, obj.actor)
            return
        self._worklist.append(obj)
        if not self._running:
            self._run(now)

    def _run(self, now: float) -> None:
        self._running = True
        worklist = self._worklist
        while worklist:
            obj = worklist.popleft()
            if obj.refs or obj.uses or obj.held:
                continue
            self._free(now, obj)
        self._running = False

    def _free(self, now: float, obj: ObjectRecord) -> None:
        objects = self.cluster.objects
        if objects.get(obj.number) is not obj:
            return  # gone already, or of an ended session
        if obj.status is PENDING and obj.task is not None and not obj.task.t_finished:
            return  # its task still runs; it goes when that ends
        if obj.lineage and not self.rebuildable(obj):
            return  # something made from it may be lost, and it is needed then
        del objects[obj.number]
        if obj.locations is not None:
            self.cluster.store.forget(obj)
        for inner in obj.contained:
            inner.held -= 1
            self.check(now, inner)
        obj.contained = ()
        if obj.status is not PENDING and obj.status is not ENDED:
            if type(obj.value) not in self.plain_types:
                self.freed.append(obj.value)
            obj.value = DROPPED
            move(obj, RELEASED)  # from LOST too: a rebuild for the sake of a sibling passes it by
        task = obj.task
        if task is not None:
            if not obj.lineage and task.args is not None:
                self.release_lineage(now, task)
            self.cluster.history.value_gone(task)
            if len(task.returns) == 1:
                if task.args is None and not obj.lineage:
                    task.returns = ()  # as in drop()
            elif task.stream is not None:
                self._item_gone(task)

    def _item_gone(self, task: TaskRecord) -> None:
        """A generator may yield for ever: its task does not list what was let go of. The first is the object of its end."""
        stream = task.stream
        stream.gone += 1
        if stream.gone > 100 and 2 * stream.gone > len(task.returns):
            objects = self.cluster.objects
            task.returns = [
                obj for index, obj in enumerate(task.returns) if not index or obj.lineage or obj.number in objects
            ]
            stream.gone = 0

    @staticmethod
    def rebuildable(obj: ObjectRecord) -> bool:
        """Whether it could be made again: not what was put, nor what came from a task that will not run once more."""
        task = obj.task
        return task is not None and task.args is not None and task.retries_left != 0

    def release_arguments(self, now: float, task: TaskRecord) -> None:
        """The task will not run again: what it took is not needed for its sake."""
        deps, contained = task.deps, task.contained
        task.args, task.deps, task.contained = None, (), ()
        gone = []
        for dep in deps:
            dep.uses -= 1
            if not (dep.uses or dep.refs or dep.held):
                gone.append(dep)
        if gone:
            self.release(now, gone)
        for inner in contained:
            inner.held -= 1
            self.check(now, inner)

    def keep_lineage(self, now: float, task: TaskRecord) -> None:
        """The task has run, and its values could be lost: what can be made again of its arguments may go, the rest stays."""
        for dep in task.deps:
            dep.lineage += 1
            dep.uses -= 1
            self.check(now, dep)

    def release_lineage(self, now: float, task: TaskRecord) -> None:
        """No value of the task, nor one made from it, can need it again."""
        worklist = [task]
        while worklist:
            task = worklist.pop()
            if not task.t_finished or any(o.number in self.cluster.objects or o.lineage for o in task.returns):
                continue
            deps, contained = task.deps, task.contained
            task.args, task.deps, task.contained = None, (), ()
            if task.actor is not None:
                self.cluster.actor_manager.lineage_gone(now, task.actor)
            for dep in deps:
                dep.lineage -= 1
                if dep.number in self.cluster.objects:
                    self.check(now, dep)
                elif not dep.lineage and dep.task is not None and dep.task.args is not None:
                    worklist.append(dep.task)
            for inner in contained:
                inner.held -= 1
                self.check(now, inner)

    def use_again(self, task: TaskRecord) -> None:
        """The task is to run once more for a lost value: its arguments are in use again."""
        if task.actor is not None:
            task.actor.lineage -= 1
        for dep in task.deps:
            dep.lineage -= 1
            dep.uses += 1
            if dep.number not in self.cluster.objects:  # its value had gone; its record comes back, to be rebuilt
                self.cluster.objects[dep.number] = dep
                move(dep, LOST)
