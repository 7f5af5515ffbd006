"""Getting: how a thread gets the values of objects, for `get` and for the arguments of a task."""

from __future__ import annotations

from ..core.records import DROPPED, ENDED, FAILED, PENDING, READY, RELEASED, SPILLED, Failure, ObjectRecord
from ..exceptions import ObjectLostError, ReferenceCountingAssertionError
from ..process.worker_process import caller
from ..process.signal_handlers import call_postponed, postponed
from ..values import errors
from ..values.serialization import COPY, Serialized
from .spill_folder import SpilledFile
from .spilling import read_back
from .waiting import Waiting, of_an_ended_session, refuse_dead_worker

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, overload
else:
    from ..generics import overload


class ArgumentLost(Exception):
    """The value of an argument was lost after the task was given to its worker. The core rebuilds the value."""


class Getting(Waiting):
    """How a thread gets values. None of the methods may be called with the lock held."""

    def wait_values(self, objects: list[ObjectRecord], timeout: float | None) -> bool:
        """Wait until every object has a value, or one has failed. timeout: seconds; None waits forever.

        Returns False if the time ran out. Raises ValueError for an object of an ended session, ObjectLostError for one
        that is unknown here (unless there is a timeout), and what interrupts the wait (see `wait_for`).
        """
        deadline = None if timeout is None else self.now() + timeout
        while True:
            pending = [obj for obj in objects if obj.status is not READY and obj.status is not SPILLED]
            if not pending:
                return True
            for obj in pending:
                if obj.status is FAILED:
                    return True
                if obj.number < 0 and timeout is None:
                    self._refuse_unknown(obj)
                if obj.status is ENDED:
                    raise of_an_ended_session(obj)
                if obj.status is RELEASED:
                    self._check_can_return(obj)
            left = None if deadline is None else max(0.0, deadline - self.now())
            if not self.wait_for(pending, len(pending), True, left):
                return False

    @staticmethod
    def _refuse_unknown(obj: ObjectRecord) -> None:
        """Raise ObjectLostError for an id that no object of this session has: its number is negative. On Ray the get
        waits forever."""
        if obj.status is not ENDED:
            raise ObjectLostError(obj.hex, None, "")

    def get_one(self, obj: ObjectRecord) -> tuple[Any] | None:
        """The fast way for the common case: wait for the object, and return its value in a tuple.

        Returns None if the case is not a common one (the object has failed, or its value is in a store or a file);
        `get` then handles it. Raises ObjectLostError for an unknown object, and what interrupts the wait.
        """
        if postponed:
            call_postponed()
        if obj.status is PENDING:
            if obj.number < 0:
                self._refuse_unknown(obj)
            self.wait_for([obj], 1, True, None)
        value = obj.value
        if obj.status is not READY or obj.locations is not None:
            return None
        kind = type(value)
        if kind is Serialized:
            return (errors.loaded(value),)
        return None if kind is SpilledFile or value is DROPPED else (value,)

    @overload
    def get(self, objects: list[ObjectRecord], timeout: None = None) -> list[Any]: ...

    @overload
    def get(self, objects: list[ObjectRecord], timeout: float | None) -> list[Any] | None: ...

    def get(self, objects: list[ObjectRecord], timeout: float | None = None) -> list[Any] | None:
        """The values, in order; None if the time ran out. timeout: seconds; None waits forever.

        Raises the error of the first object in the list that has failed, as soon as one has; and what `wait_values`
        raises.
        """
        if postponed:
            call_postponed()
        values = self._values(objects, timeout)
        if isinstance(values, ObjectRecord):
            if self.postponed:
                self.raise_postponed()
            raise errors.to_exception(values.value, values)
        return values

    def value_of(self, obj: ObjectRecord) -> Any:
        """The value of an object that has one or has failed. It waits only if the value has been lost since.

        Raises what `get` raises, but neither an interrupt of the caller's task nor what a handler of signals raises:
        the answer may be for somebody else, such as a future.
        """
        values = self._values([obj], None)
        if isinstance(values, ObjectRecord):
            raise errors.to_exception(obj.value, obj)
        assert values is not None  # there is no time limit
        return values[0]

    def _values(self, objects: list[ObjectRecord], timeout: float | None) -> list[Any] | ObjectRecord | None:
        """What `get` returns, or the first object in the list that has failed, as soon as one has."""
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
                    return obj

    def _load(self, objects: list[ObjectRecord]) -> list[Any] | None:
        """The values of objects that were READY or SPILLED a moment ago; None if one of them has vanished since."""
        values = []
        for obj in objects:
            value = obj.value
            kind = type(value)
            while kind is SpilledFile:
                value = read_back(self, obj, value)
                kind = type(value)
            if kind is Serialized:
                value = value.data.copy() if value.form == COPY else errors.loaded(value)  # `deserialize`, written out
            elif value is DROPPED or kind is Failure:
                self._check_can_return(obj)
                return None
            if obj.locations is not None:
                self._note_use(obj)
            values.append(value)
        return values

    def _check_can_return(self, obj: ObjectRecord) -> None:
        """A value has vanished. Return if the object can have a value or an error again, so that the caller may try
        again.

        Raises WorkerExit in the thread of a dead worker, whose task's arguments may have been released, and otherwise
        ReferenceCountingAssertionError for an object that was released.
        """
        execution = caller()
        if execution is not None:
            refuse_dead_worker(execution.worker)
        with self.lock:
            gone = obj.status is RELEASED and self.cluster.objects.get(obj.number) is not obj
        if gone:  # our own mistake in counting; without this error the caller would try again forever, at full speed
            raise ReferenceCountingAssertionError(obj.hex, None, "")

    def _note_use(self, obj: ObjectRecord) -> None:
        """Report that a large value was read, so that a copy of it is now on this thread's node."""
        execution = caller()
        with self.lock:
            node = execution.worker.node if execution is not None else self.head
            actions = self.cluster.object_used(self.now(), obj, node)
        self.carry_out(actions)

    def argument_of(self, obj: ObjectRecord) -> Any:
        """The value of an argument, which had one when the task was given to its worker. Never waits.

        Raises the argument's error if it has failed, and ArgumentLost if its value has been lost since.
        """
        while True:
            if obj.status is READY or obj.status is SPILLED:
                values = self._load([obj])
                if values is not None:
                    return values[0]
            elif obj.status is FAILED:
                raise errors.to_exception(obj.value, obj)
            else:
                self._check_can_return(obj)
                raise ArgumentLost
