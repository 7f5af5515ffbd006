"""A worker: runs one attempt of a task, and says how it went. The same code serves every runtime.

What a task sees is what it would see in a process of its own, as far as one process allows: fresh copies of its arguments, its
own copies of functions and classes that travel by value, an empty `contextvars` context.
"""
from __future__ import annotations

import _thread
import inspect
import logging
from contextvars import Context
from dataclasses import dataclass
from typing import Any

from .. import exceptions
from ..core.object_store import INLINE_BYTES
from ..core.records import ACTOR_CREATION_TASK, ACTOR_TASK, LOST, PENDING, Failure, TaskRecord, Waiter, WorkerRecord
from ..values import errors
from ..values.arguments import unpack
from .runtime import DEAD, NOTHING, Runtime
from ..process.context import Execution, current
from ..values.serialization import Serialized, Space, deserialize, serialize, size_of
from .waiting import ArgumentLost, SessionEnded, WorkerExit, the_end
from .spilling import make_room

SIZES = {type(value): size_of(value) for value in (0, 0.0, False, None)}      # immutable, and of a size known beforehand


@dataclass
class StreamingGeneratorStats:
    """What Ray sends into a generator at each yield. object_creation_dur_s: how long it took to store the item; not measured."""

    object_creation_dur_s: float = 0.0


GENERATOR_STATISTICS = StreamingGeneratorStats()


class ActorExit(BaseException):
    """Ends the actor from inside: `exit_actor`, `__ray_terminate__`."""


class TaskInterrupt(KeyboardInterrupt):
    """The KeyboardInterrupt of a cancelled task. Making one notes that it has reached the task's code."""

    def __init__(self, *args: object):
        super().__init__(*args)
        execution = current.get()
        if execution is not None and execution.task.cancel_requested:
            execution.task.was_interrupted = True


class WorkerHandle:
    """The runtime's side of a worker: what cannot be in the core's record.

    ident: the thread that runs it. waiter, waiting: what its thread waits for in get or wait. interrupted: an exception to be
    raised when that wait is over. user_task: the task whose user code is being run; guarded by the runtime's lock.
    instance: the actor that lives in it. space: its copies of classes and functions; both None when the worker has ended.
    environ: as an Execution's, for the actor.
    """

    __slots__ = ("record", "ident", "waiter", "waiting", "interrupted", "user_task", "instance", "space", "inbox", "done",
                 "loop", "sent", "environ")

    def __init__(self, record: WorkerRecord, space: Space):
        self.record = record
        self.space: Any = space
        self.ident = 0
        self.waiter: Waiter | None = None
        self.waiting: Any = ()
        self.interrupted: BaseException | None = None
        self.user_task: TaskRecord | None = None
        self.instance: Any = None
        self.inbox: Any = None
        self.done: Any = None
        self.loop: Any = None
        self.sent = False               # an asynchronous exception is on its way to the thread


def actor_handle(worker: WorkerRecord) -> WorkerHandle | None:
    """The handle that holds the actor's instance: that of the worker which ran its constructor."""
    first = worker.actor.worker if worker.actor is not None else None      # read once: an actor that dies has none any more
    return first.handle if first is not None else worker.handle


class Outcome:
    """How an attempt went. values: what to store for each return, with contained records and sizes; or failure; or exit."""

    __slots__ = ("values", "sizes", "contained", "failure", "retry", "exit", "message", "result")

    def __init__(self, values: tuple = (), sizes: tuple = (), contained: Any = None, failure: Failure | None = None,
                 retry: bool = False, exit: str = "", message: str = ""):
        self.values, self.sizes, self.contained, self.failure, self.retry = values, sizes, contained, failure, retry
        self.exit, self.message = exit, message
        self.result: Any = None         # kept until it is reported: the references in it must not go before they are counted


def run_attempt(runtime: Runtime, worker: WorkerRecord, task: TaskRecord) -> Outcome:
    """Run the current attempt of a task that is not a coroutine, on this thread. Never raises."""
    handle = worker.handle
    execution = Execution(runtime, worker, task, handle.space, handle.ident)
    return Context().run(_run, runtime, execution, handle)


def _run(runtime: Runtime, execution: Execution, handle: WorkerHandle) -> Outcome:
    current.set(execution)
    task = execution.task
    spec = task.spec
    try:
        try:
            function, args, kwargs = call_of(runtime, execution)
            handle.user_task = task
            now = runtime.now()
            if execution.worker.status is DEAD:         # declared so meanwhile: the task is somebody else's by now
                raise WorkerExit("SYSTEM_ERROR: the worker is dead")
            if task.cancel_requested:                          # meanwhile: its interrupt found nobody to be raised in
                raise TaskInterrupt
            if not task.t_finished:                     # its owner has died: it runs, and is over already
                task.t_started = now
            result = function(*args, **kwargs)
            del args, kwargs
            if runtime.unfinished_lines:
                runtime.end_lines(execution)
            if spec.streams:
                outcome = _stream(runtime, execution, result)
            elif spec.kind == ACTOR_CREATION_TASK:
                outcome = Outcome()
            else:
                now = runtime.now()                     # note_end, written out
                if execution.worker.status is not DEAD and not task.t_finished:
                    task.t_ended = now
                try:
                    outcome = store(runtime, task, result)
                except Exception as error:
                    outcome = not_stored(runtime, execution, error)
            return outcome
        finally:
            handle.user_task = None
            if handle.sent:
                settle_interrupt(handle)
    except BaseException as error:
        if not task.t_ended:
            note_end(runtime, execution)
        return outcome_of_error(runtime, execution, error)


def note_end(runtime: Runtime, execution: Execution) -> None:
    """Note when the attempt's code ended, unless the core has ended the attempt by itself. The lock is not taken: the clock is read
    first, so that no call, at which another thread could have its turn, comes between the look and the note. The core allows
    for a clock that was read a little later than its own."""
    now, task = runtime.now(), execution.task
    if execution.worker.status is not DEAD and not task.t_finished:
        task.t_ended = now


def settle_interrupt(handle: WorkerHandle) -> None:
    """The user's code has ended: an interrupt that is still on its way to this thread must not hit anything else."""
    handle.user_task = None
    if handle.sent:
        clear_async_exception(handle)


class _Absorbed(BaseException):
    """Raised and caught in one place: see `clear_async_exception`."""


def clear_async_exception(handle: WorkerHandle) -> None:
    """Take back an asynchronous exception that has not been raised yet."""
    import ctypes
    handle.sent = False
    send = ctypes.pythonapi.PyThreadState_SetAsyncExc
    send(ctypes.c_ulong(handle.ident), None)
    # Before 3.13 the interpreter then goes on looking for it, at every call and every turn of every loop in every thread, until
    # one is raised anywhere. So one is raised here: it replaces what was on its way, and comes out of the call that sent it.
    try:
        send(ctypes.c_ulong(_thread.get_ident()), ctypes.py_object(_Absorbed))
        send(ctypes.c_ulong(_thread.get_ident()), None)
    except _Absorbed:
        return


def call_of(runtime: Runtime, execution: Execution) -> tuple[Any, Any, dict]:
    """What to call, with fresh copies of the arguments."""
    args: Any
    kwargs: dict[str, Any]
    task = execution.task
    spec = task.spec
    if spec.kind == ACTOR_TASK:
        if type(task.args) is tuple:            # as unpack() would answer
            args, kwargs = task.args, {}
        else:
            args, kwargs = unpack(task.args, runtime.argument_of)
        instance = execution.worker.handle.instance
        if instance is None:                    # another thread of the actor's
            first = actor_handle(execution.worker)
            instance = first.instance if first is not None else None
        execution.instance = instance
        if spec.function is not None:           # a method that every actor has
            return spec.function, (instance, *args), kwargs
        return getattr(instance, spec.options["method"]), args, kwargs
    if spec.kind == ACTOR_CREATION_TASK and 0 in task.actor.meta.groups.values():
        raise WorkerExit("SYSTEM_ERROR: a concurrency group of the actor has no thread")     # as in Ray
    # Before its arguments: a class that both hold is then as it came with the arguments, which are newer.
    function = spec.function.load(execution.space)
    args, kwargs = unpack(task.args, runtime.argument_of if task.actor is None else runtime.value_of)
    if spec.kind == ACTOR_CREATION_TASK:
        return _construct, (runtime, execution, function, args, kwargs), {}
    return function, args, kwargs


def _construct(runtime: Runtime, execution: Execution, cls: Any, args: Any, kwargs: dict) -> None:
    """Make the actor's instance. It is known before its constructor runs, so that what that starts can find it."""
    instance = cls.__new__(cls)
    execution.instance = execution.worker.handle.instance = instance
    if cls.__init__ is not object.__init__:
        returned = instance.__init__(*args, **kwargs)
        if returned is not None:
            raise TypeError(f"__init__() should return None, not '{type(returned).__name__}'")
    note_repr(execution)


def note_repr(execution: Execution) -> None:
    """An actor whose class defines __repr__ is shown by it."""
    instance, actor = execution.instance, execution.worker.actor
    if type(instance).__repr__ is not object.__repr__:
        actor.repr_name = repr(instance)


def not_stored(runtime: Runtime, execution: Execution, error: Exception) -> Outcome:
    """What `store` raised fails the task, which is not tried again, as in Ray: its code has returned. With "dynamic" it has not,
    and the error is as good as any."""
    outcome = outcome_of_error(runtime, execution, error)
    outcome.retry = outcome.retry and execution.task.spec.num_returns == "dynamic"
    return outcome


def store(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    """Take a snapshot of what a task returned, for each of its returns. Raises what pickling the result raises, and
    ObjectStoreFullError or OutOfDiskError when there is no room for it."""
    if task.spec.num_returns == 1 and type(result) in SIZES:        # the common case: nothing to pickle, nothing inside
        return Outcome((result,), (SIZES[type(result)],))
    outcome = _store(runtime, task, result)
    for size in outcome.sizes:
        if size > INLINE_BYTES:
            make_room(runtime, task.node or runtime.head, size)
    outcome.result = outcome.result, result
    return outcome


def _store(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    wanted = task.spec.num_returns
    if wanted == 1 and not inspect.isgenerator(result):
        value = serialize(result)
        if type(value) is Serialized and value.contained:
            return Outcome((value,), (value.size,), (value.contained,))
        return Outcome((value,), (size_of(value),))
    if wanted == 0:
        return Outcome()
    if wanted == "dynamic":
        return _dynamic(runtime, task, result)
    if inspect.isgenerator(result):
        results = result
    else:
        try:
            count = len(result)
        except TypeError as error:
            raise TypeError(f"{error}: {task.spec.func_name} was asked for num_returns={wanted} values") from None
        if count != wanted:
            raise ValueError(f"Task returned {count} objects, but num_returns={wanted}.")
        results = iter(result)
    values: list[Any] = []
    try:
        for one in results:
            if len(values) == wanted:           # a generator is asked once more than there are returns, as in Ray
                break
            values.append(serialize(one))
        if len(values) < wanted:
            raise ValueError(f"Task yielded fewer than num_returns={wanted} objects.")
    except Exception as error:                  # what is there is good; the returns that are not are errors
        if not values:
            raise
        values += [_failure(task, error)] * (wanted - len(values))
    sizes = [size_of(value) if type(value) is not Failure else 0 for value in values]
    contained = [value.contained if type(value) is Serialized else () for value in values]
    return Outcome(tuple(values), tuple(sizes), tuple(contained))


def _failure(task: TaskRecord, error: Exception) -> Failure:
    """Why a value of the task is not there."""
    actor = task.actor
    if actor is None:
        return errors.from_exception(error, task.spec.func_name, about=task)
    return errors.from_exception(error, task.spec.func_name, actor_repr=actor.repr_name or actor.class_name,
                                   actor_id=actor.hex, about=task)


def _dynamic(runtime: Runtime, task: TaskRecord, result: Any) -> Outcome:
    """num_returns="dynamic": every item becomes an object; the one return holds their references. An error that is not to be
    tried again is the last of them; an item that cannot be stored fails too."""
    from ..object_ref import DynamicObjectRefGenerator, ObjectRef
    refs = []
    items = iter(result)
    try:
        for item in items:
            try:
                refs.append(ObjectRef._adopt(runtime.put(item)))
            except Exception as error:
                refs.append(ObjectRef._adopt(runtime.put(errors.to_exception(_failure(task, error)))))
                raise
    except Exception as error:
        if may_retry(task, error):
            raise
        refs.append(ObjectRef._adopt(runtime.put(errors.to_exception(_failure(task, error)))))
    holder = DynamicObjectRefGenerator(refs)
    value = serialize(holder)
    outcome = Outcome((value,), (value.size,), (value.contained,))
    outcome.result = holder
    return outcome


def _stream(runtime: Runtime, execution: Execution, generator: Any) -> Outcome:
    """Report what a generator yields, item by item. A generator is told statistics at each yield, as in Ray."""
    task, worker = execution.task, execution.worker
    if not hasattr(generator, "__next__"):
        raise ValueError(f"{task.spec.func_name} streams its results, so it must be a generator")
    told: Any = None
    while True:
        try:
            item = generator.send(told) if told is GENERATOR_STATISTICS else \
                next(generator) if told is None else generator.throw(told)
        except StopIteration:
            break
        report_item(runtime, worker, task, item)
        del item
        wait_for_consumer(runtime, execution)
        told = runtime.postponed and runtime.take_postponed(worker.handle) or GENERATOR_STATISTICS
    if runtime.unfinished_lines:
        runtime.end_lines(execution)
    note_end(runtime, execution)
    return Outcome((None,), (0,))


def report_item(runtime: Runtime, worker: WorkerRecord, task: TaskRecord, item: Any) -> None:
    """Store one item of a stream. Raises what pickling it raises."""
    value = serialize(item)
    contained = value.contained if type(value) is Serialized else ()
    size = size_of(value)
    if size > INLINE_BYTES:
        make_room(runtime, worker.node, size)
    runtime.tell(runtime.cluster.stream_item, worker, task, value, size, contained)


def wait_for_consumer(runtime: Runtime, execution: Execution) -> None:
    """With back-pressure: wait until the consumer has taken enough of what was yielded."""
    limit, stream = execution.task.spec.backpressure, execution.task.stream
    if limit < 0 or runtime.local:              # there the consumer is further down the stack
        return
    while stream.refs and len(stream.items) - stream.taken >= limit:
        lock = _thread.allocate_lock()
        lock.acquire()
        waiter = Waiter(1, lock.release)
        with runtime.lock:
            if runtime.closed:                  # those who end the session have looked for waiters already
                raise the_end()
            if not stream.refs or len(stream.items) - stream.taken < limit:
                return
            execution.worker.handle.waiter = waiter
            actions = runtime.cluster.producer_waits(runtime.now(), stream, waiter, execution.worker)
        runtime.carry_out(actions)
        runtime.park(lock, None)
        handle = execution.worker.handle
        with runtime.lock:
            handle.waiter = None
            if execution.worker.actor is None:
                runtime.cluster.unblocked(runtime.now(), execution.worker)
        if handle.interrupted is not None:
            raise runtime.take_interrupt(handle)


def outcome_of_error(runtime: Runtime, execution: Execution, error: BaseException) -> Outcome:
    """What an exception that left a task's code means for the task and its worker."""
    task, worker = execution.task, execution.worker
    actor = worker.actor
    if runtime.unfinished_lines:
        runtime.end_lines(execution)
    if isinstance(error, SessionEnded):
        return Outcome(exit="worker", message="the session ended")
    if isinstance(error, ArgumentLost):
        return Outcome(exit="arguments")
    if isinstance(error, WorkerExit):
        return Outcome(exit="worker", message=str(error) or "the worker exited")
    if isinstance(error, ActorExit):
        return Outcome(exit="actor", message=f"INTENDED_USER_EXIT: {error}")
    if isinstance(error, SystemExit):
        if actor is not None and error.code == 0:
            return Outcome(exit="actor", message="INTENDED_USER_EXIT: its code raised SystemExit(0)")
        return Outcome(exit="code" if actor is not None else "worker",
                       message=f"its {'task' if actor is None else 'code'} raised SystemExit({error.code})")
    if task.cancel_requested and actor is not None and isinstance(error, exceptions.TaskCancelledError):
        return Outcome(failure=Failure("TASK_CANCELLED", "it was cancelled", about=task))     # what it waited for was, with it
    try:
        str(error)
    except Exception as problem:                # as in Ray, what its own text raises takes the error's place
        error = problem
    name = task.spec.func_name
    repr_name = actor.repr_name or f"{actor.class_name}" if actor is not None else None
    where: dict[str, Any] = {"actor_repr": repr_name, "actor_id": actor.hex if actor is not None else None, "about": task}
    if isinstance(error, KeyboardInterrupt) and task.spec.kind != ACTOR_CREATION_TASK and (actor is None or not actor.is_async):
        cancelled = exceptions.TaskCancelledError(task.hex)
        cancelled.__traceback__ = error.__traceback__
        return Outcome(failure=errors.from_exception(cancelled, name, "TASK_CANCELLED", **where))
    failure = errors.from_exception(error, name, **where)
    return Outcome(failure=failure, retry=may_retry(task, error))


def may_retry(task: TaskRecord, error: BaseException) -> bool:
    """Whether the task's options let this error be tried again. Whether attempts are left is the core's question."""
    allowed = task.spec.retry_exceptions
    if allowed is True or not allowed:
        return bool(allowed)
    cause = error.cause if isinstance(error, exceptions.RayTaskError) else error
    if isinstance(cause, exceptions.UserCodeException) and cause.__cause__ is not None:
        cause = cause.__cause__
    if isinstance(cause, tuple(allowed)):
        return True
    try:            # a class that travels by value has a copy where the task runs; the options name the driver's
        return isinstance(Context().run(deserialize, serialize(cause)), tuple(allowed))
    except Exception:
        return False


def shut_down(handle: WorkerHandle | None, context: Context) -> None:
    """An actor that ends in order is asked to clean up, by its `__ray_shutdown__`. What that raises is logged and no more."""
    instance = handle.instance if handle is not None else None
    hook = getattr(type(instance), "__ray_shutdown__", None)
    if hook is None:
        return
    try:
        returned = context.run(hook, instance)
        if inspect.iscoroutine(returned):
            returned.close()                    # nobody awaits it, as in Ray
    except Exception:
        logging.getLogger(__name__).exception("%s.__ray_shutdown__ failed", type(instance).__name__)


def _farewell(runtime: Runtime, worker: WorkerRecord, task: TaskRecord) -> None:
    """The actor has said that it ends, or its constructor has failed; it is still alive to others."""
    context = Context()
    context.run(current.set, Execution(runtime, worker, task, worker.handle.space, worker.handle.ident))
    shut_down(actor_handle(worker), context)


def unwanted_end(worker: WorkerRecord) -> bool:
    """Whether this is the worker of an actor that ended because nobody held it any more."""
    actor = worker.actor
    return actor is not None and actor.out_of_scope and worker.exit_type == "INTENDED_SYSTEM_EXIT"


def report(runtime: Runtime, worker: WorkerRecord, task: TaskRecord, outcome: Outcome) -> TaskRecord | None:
    """Tell the core how an attempt went. Returns the worker's next task; None when there is none, or the worker is dead."""
    cluster = runtime.cluster
    if outcome.exit and outcome.exit != "arguments":
        if outcome.exit != "worker":
            _farewell(runtime, worker, task)
        if outcome.exit == "actor":
            runtime.tell(cluster.actor_exited, worker, outcome.message)
        else:
            runtime.tell(cluster.worker_died, worker, Failure("WORKER_DIED", outcome.message, about=worker))
        return None
    if outcome.failure is not None and task.spec.kind == ACTOR_CREATION_TASK:
        _farewell(runtime, worker, task)
    lock = runtime.lock
    if not lock.try_enter(False):               # `with lock`, written out
        lock.wait()
    try:
        now = runtime.now()
        if runtime.dropped:                     # the program itself may wait, or sleep
            cluster.references_dropped(now, runtime.dropped)
        if outcome.exit:
            actions = cluster.arguments_lost(now, worker, task)
        elif outcome.failure is not None:
            actions = cluster.task_failed(now, worker, task, outcome.failure, outcome.retry)
        elif task.worker is worker and worker.status is not DEAD:
            for obj, value in zip(task.returns, outcome.values):
                if obj.status is PENDING or obj.status is LOST:     # an earlier attempt's value stays
                    obj.value = value
            actions = cluster.task_finished(now, worker, task, outcome.sizes, outcome.contained)
        else:
            actions = NOTHING
        following = worker.task
    finally:
        lock.release()
        if lock.line:
            lock.wake_one()
    if outcome.result is not None:
        outcome.result = None
    if actions or cluster.references.freed:
        runtime.carry_out(actions)
    return following
