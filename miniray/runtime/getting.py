"""Getting: how a thread gets the values of objects, for `get` and for the arguments of a task."""

from __future__ import annotations

from typing import Any, overload

from ..core.records import DROPPED, ENDED, FAILED, PENDING, READY, RELEASED, SPILLED, Failure, ObjectRecord
from ..exceptions import ObjectLostError, ReferenceCountingAssertionError
from ..process.context import current
from ..values import errors
from ..values.serialization import Serialized
from .spill_folder import SpilledFile
from .spilling import read_back
from .waiting import Waiting, of_an_ended_session, refuse_the_dead


class ArgumentLost(Exception):
    """An argument of a task is lost, although the task was given to a worker."""


class Getting(Waiting):
    """How a thread gets values."""

    def wait_values(self, objects: list[ObjectRecord], timeout: float | None) -> bool:
        """Wait until all are there, or one has failed. Returns False when the time ran out."""
        deadline = None if timeout is None else self.now() + timeout
        while True:
            pending = [obj for obj in objects if obj.status is not READY and obj.status is not SPILLED]
            if not pending:
                return True
            for obj in pending:
                if obj.status is FAILED:
                    return True
                if timeout is None:
                    self._refuse_foreign(obj)
                if obj.status is ENDED:
                    raise of_an_ended_session(obj)
                if obj.status is RELEASED:
                    self._it_went(obj)
            left = None if deadline is None else max(0.0, deadline - self.now())
            if not self.wait_for(pending, len(pending), True, left):
                return False

    @staticmethod
    def _refuse_foreign(obj: ObjectRecord) -> None:
        """ObjectLostError for an id that nothing here has: who waits for it without a timeout would wait for ever, as on Ray."""
        if obj.number < 0 and obj.status is not ENDED:
            raise ObjectLostError(obj.hex, None, "")

    def get_one(self, obj: ObjectRecord) -> tuple | None:
        """The value in a tuple, when it is there or comes soon enough for nobody to ask why; None when `get` has to see to it."""
        if obj.status is PENDING:
            self._refuse_foreign(obj)
            self.wait_for([obj], 1, True, None)
        value = obj.value
        if obj.status is not READY or obj.locations is not None:
            return None
        kind = type(value)
        if kind is Serialized:
            return (errors.loaded(value),)
        return None if kind is SpilledFile or value is DROPPED else (value,)

    @overload
    def get(self, objects: list[ObjectRecord], timeout: None = None) -> list: ...

    @overload
    def get(self, objects: list[ObjectRecord], timeout: float | None) -> list | None: ...

    def get(self, objects: list[ObjectRecord], timeout: float | None = None) -> list | None:
        """The values, in order, or None when the time ran out. Raises the error of the first that has one."""
        while True:
            for obj in objects:
                if obj.status is not READY and obj.status is not SPILLED:
                    break
            else:
                values = self._load(objects)
                if values is not None:
                    return values
            if not self.wait_values(objects, timeout):
                return None
            for obj in objects:
                if obj.status is FAILED:
                    raise errors.to_exception(obj.value, obj)

    def _load(self, objects: list[ObjectRecord]) -> list | None:
        values = []
        for obj in objects:
            value = obj.value
            kind = type(value)
            while kind is SpilledFile:
                value = read_back(self, obj, value)
                kind = type(value)
            if kind is Serialized:
                value = errors.loaded(value)
            elif value is DROPPED or kind is Failure:
                self._it_went(obj)
                return None
            if obj.locations is not None:
                self._used_here(obj)
            values.append(value)
        return values

    def _it_went(self, obj: ObjectRecord) -> None:
        """A value went meanwhile: it is to be waited for again, or has failed. For the thread of a dead worker it may have gone
        for good, with the arguments of its task. ReferenceCountingAssertionError for one that will not come again."""
        execution = current.get()
        if execution is not None:
            refuse_the_dead(execution.worker)
        with self.lock:
            gone = obj.status is RELEASED and self.cluster.objects.get(obj.number) is not obj
        if gone:  # a mistake of ours, which is not to be waited for as long as there is a processor
            raise ReferenceCountingAssertionError(obj.hex)

    def _used_here(self, obj: ObjectRecord) -> None:
        """A large value was fetched: a copy of it is on this node now."""
        execution = current.get()
        with self.lock:
            node = execution.worker.node if execution is not None else self.head
            actions = self.cluster.object_used(self.now(), obj, node)
        self.carry_out(actions)

    def value_of(self, obj: ObjectRecord) -> Any:
        """One value, waited for as long as it takes."""
        return self.get([obj])[0]

    def argument_of(self, obj: ObjectRecord) -> Any:
        """The value of an argument, which was there when the task was given to its worker. ArgumentLost when it is not."""
        while True:
            if obj.status is READY or obj.status is SPILLED:
                values = self._load([obj])
                if values is not None:
                    return values[0]
            elif obj.status is FAILED:
                raise errors.to_exception(obj.value, obj)
            else:
                self._it_went(obj)
                raise ArgumentLost
