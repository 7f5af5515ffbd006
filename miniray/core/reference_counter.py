"""The reference counter: who needs an object, and what is dropped when nobody does.

Theory of operation.

*Three counts keep a value alive.* `refs` counts the ObjectRefs in the program, `uses` the unfinished tasks that take
the object as an argument, and `held` the stored values (and the arguments of tasks) that contain a reference to it.
Each count is an integer in the object's record, which the events change as references come and go. When all three are
zero, nobody can ask for the value again, and it is freed at once: there is no collector and no delay. An actor's handle
is an object, too; when its counts are zero, the actor ends. Weak handles are counted in an object of their own, whose
counts decide nothing but how long the actor's class is kept.

*A fourth count keeps the recipe.* A value in an object store can be lost with its node. To rebuild it, its task must
run again, and needs its arguments. So a task whose value can be lost keeps its arguments when it ends (`keep_lineage`):
each argument moves one from `uses` to `lineage`. An object with nothing but lineage loses its value, if its own task
can make it again, and stays as a record: RELEASED, and no longer in the table. If it could not be rebuilt (it was put,
or its task has no retries left, or keeps no arguments), the value stays as well, since it is needed to rebuild others.
A small value stays with its owner and cannot be lost, so a task with only small values keeps nothing
(`release_arguments`).

*The end of lineage.* When the last value of a task is freed, nobody can ask for a rebuilding, and its arguments lose
their lineage count (`release_lineage`). This goes back along the chain of tasks for as long as nothing else needs them.
When a lost value must be rebuilt, `use_again` does the opposite of `keep_lineage`: the arguments are in use again, and
those without a value come back to the table as LOST, to be rebuilt first.

*The worklist.* Freeing a value releases the objects inside it, and these may contain others, to any depth. `check` puts
an object on a worklist, and the outermost call works it off, so a list of 100,000 linked values needs no stack. An
object on the worklist is looked at again when its turn comes, since something may need it again by then.

*Values are dropped outside the lock.* Dropping a value may run user code (`__del__`). Freed values go to `freed`; the
runtime takes them with `take_freed` and drops them after it has released its lock.

Ray: core_worker/reference_counter.h.
"""

from __future__ import annotations

from collections import deque

from .records import DROPPED, ENDED, LOST, PENDING, READY, RELEASED, ObjectRecord, StreamRecord, TaskRecord
from .tables import Tables
from .transitions import move

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class ReferenceCounter:
    """Frees objects when nothing needs them any longer. The counts themselves are in the records."""

    def __init__(self, cluster: Tables):
        self.cluster = cluster
        self.freed: list[Any] = []  # opaque: values that the runtime must drop outside its lock
        self.plain_types: frozenset[type] = frozenset()  # set by the runtime: dropping such a value runs no code
        self._worklist: deque[ObjectRecord] = deque()
        self._running = False

    def drop_stream(self, now: float, stream: StreamRecord) -> None:
        """The program dropped a generator object of the stream. If it was the last, drop the items that nobody took."""
        stream.refs -= 1
        if stream.refs:
            return
        for index in range(stream.taken, len(stream.items)):
            item, stream.items[index] = stream.items[index], None
            if item is not None:
                item.refs -= 1
                self.check(now, item)
        self.cluster.task_manager.wake_producer(stream)

    def release(self, now: float, unneeded: list[ObjectRecord]) -> None:
        """Free objects whose counts have all reached zero. As `check` for each, with a shortcut for small values."""
        objects, kept_for_values = self.cluster.objects, self.cluster.history.kept_for_values
        for obj in unneeded:
            task = obj.task
            if (
                obj.status is READY
                and obj.locations is None
                and not obj.contained
                and not obj.lineage
                and (obj.actor is None if task is None else task.args is None and task.number not in kept_for_values)
            ):
                if objects.pop(obj.number, None) is obj:  # as `_free` does for a small value that contains nothing
                    if type(obj.value) not in self.plain_types:
                        self.freed.append(obj.value)
                    obj.value, obj.status = DROPPED, RELEASED  # with `move`, written out
                    if task is not None and len(task.returns) == 1:
                        task.returns = ()  # breaks the reference cycle, so that no cyclic collection is needed
            else:
                self.check(now, obj)

    def take_freed(self) -> list[Any]:
        """Hand the freed values to the runtime, which drops them after it has released its lock."""
        freed = self.freed
        if freed:
            self.freed = []
        return freed

    def check(self, now: float, obj: ObjectRecord) -> None:
        """One of the object's counts went down: free the object, or end the actor of a handle, if nothing needs it."""
        if obj.refs or obj.uses or obj.held:
            return
        if obj.actor is not None:
            if obj.actor.handle is obj:
                self.cluster.actor_manager.last_handle_dropped(now, obj.actor)
            else:
                self.cluster.actor_manager.last_weak_handle_dropped(obj)
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
        """Free an object whose counts are zero: drop its value and release the objects inside it. Does nothing if the
        value is still to come, or may be needed to rebuild another."""
        objects = self.cluster.objects
        if objects.get(obj.number) is not obj:
            return  # it was freed before, or belongs to a session that has ended
        if obj.status is PENDING and obj.task is not None and not obj.task.t_finished:
            return  # its task is unfinished and will store the value; `TaskManager._end` checks it again
        if obj.lineage and not self.rebuildable(obj):
            return  # it may be needed to rebuild another value, and nothing can rebuild it
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
            move(obj, RELEASED)  # a LOST one, too: when its task runs again for another value, this one is left out
        task = obj.task
        if task is not None:
            if not obj.lineage and task.args is not None:
                self.release_lineage(now, task)
            self.cluster.history.value_freed(task)
            if len(task.returns) == 1:
                if task.args is None and not obj.lineage:
                    task.returns = ()  # breaks the reference cycle, as in `release`
            elif task.stream is not None:
                self._unlist_released(task)

    def _unlist_released(self, task: TaskRecord) -> None:
        """Count a released item of a generator, and shorten its list of returns once half of them are released: it may
        yield forever. The first return, the object of the stream's end, always stays."""
        stream = task.stream
        stream.num_released += 1
        if stream.num_released > 100 and 2 * stream.num_released > len(task.returns):
            objects = self.cluster.objects
            task.returns = [
                obj for index, obj in enumerate(task.returns) if not index or obj.lineage or obj.number in objects
            ]
            stream.num_released = 0

    @staticmethod
    def rebuildable(obj: ObjectRecord) -> bool:
        """Whether its value could be rebuilt: a task made it, which still has its arguments and may be retried."""
        task = obj.task
        return task is not None and task.args is not None and task.retries_left != 0

    def release_arguments(self, now: float, task: TaskRecord) -> None:
        """Drop the arguments of a task that will not run again."""
        deps, contained = task.deps, task.contained
        task.args, task.deps, task.contained = None, (), ()
        unneeded = []
        for dep in deps:
            dep.uses -= 1
            if not (dep.uses or dep.refs or dep.held):
                unneeded.append(dep)
        if unneeded:
            self.release(now, unneeded)
        for inner in contained:
            inner.held -= 1
            self.check(now, inner)

    def keep_lineage(self, now: float, task: TaskRecord) -> None:
        """Keep a finished task's arguments, since its values can be lost. Arguments that can be rebuilt lose their
        value if nothing else needs it."""
        for dep in task.deps:
            dep.lineage += 1
            dep.uses -= 1
            self.check(now, dep)

    def release_lineage(self, now: float, task: TaskRecord) -> None:
        """Drop the arguments that a task keeps as lineage, unless one of its values can still be needed. The same then
        holds for the tasks that made the arguments, and so on: a worklist takes the place of recursion."""
        worklist = [task]
        while worklist:
            task = worklist.pop()
            if not task.t_finished or any(o.number in self.cluster.objects or o.lineage for o in task.returns):
                continue
            if task.args is None:
                continue  # done already: two arguments of one task were made by this one
            deps, contained = task.deps, task.contained
            task.args, task.deps, task.contained = None, (), ()
            if task.actor is not None:
                self.cluster.actor_manager.lineage_released(now, task.actor)
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
        """Count the arguments as in use again: the task is about to run again to rebuild a lost value."""
        if task.actor is not None:
            task.actor.lineage -= 1
        for dep in task.deps:
            dep.lineage -= 1
            dep.uses += 1
            if dep.number not in self.cluster.objects:  # its value was freed: put the record back, to be rebuilt
                self.cluster.objects[dep.number] = dep
                move(dep, LOST)
