"""A worker: runs one attempt of a task and reports the outcome. The same code serves every runtime.

A task sees what it would see in a process of its own, as far as one process allows: fresh copies of its arguments, its
own copies of functions and classes that travel by value, and an empty `contextvars` context. The calls of an actor run
in the one context of their thread, as they would in a process: what one call sets, the next one finds.

`async_worker` runs the calls of async actors. It shares everything here except `_run`, whose counterpart there awaits.
"""

from __future__ import annotations

from contextvars import Context
from types import CoroutineType, MethodType

from ..core.actor_manager import UNWANTED
from ..core.records import ACTOR_CREATION_TASK, ACTOR_TASK, LOST, PENDING, Failure, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..process import children, exit_functions, worker_signals
from ..process.context import Execution, current
from ..process.exits import TaskInterrupt, WorkerExit
from ..process.our_code import enters_user_code, runs_an_attempt
from ..values.arguments import unpack
from .core_lock import writes_with_out
from .handles import WorkerHandle, actor_handle, settle_interrupt
from .outcomes import SIZES, Outcome, note_end, outcome_of_error, outcome_of_return, returned
from .runtime import Runtime
from .streams import run_stream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

DEAD = WorkerStatus.DEAD


@runs_an_attempt
def run_attempt(runtime: Runtime, worker: WorkerRecord, task: TaskRecord) -> Outcome:
    """Run the current attempt of a task, which is not a coroutine, on this thread. The worker has a handle.

    The caller runs it in the worker's context (`handle.context`), or in an empty one if the worker has none.
    An error that the task raises becomes a part of the outcome. Only an asynchronous interrupt that arrives too late
    can come out of this call.
    """
    handle: WorkerHandle = worker.handle
    execution = Execution(runtime, worker, task, handle.space, handle.ident)
    current.set(execution)
    spec = task.spec
    try:
        try:
            function, args, kwargs = call_of(runtime, execution)
            handle.user_task = task
            now = runtime.now()  # note_start, written out
            if worker.status is DEAD:
                raise WorkerExit("SYSTEM_ERROR: the worker is dead")
            if task.cancel_requested:  # before user_task was set, so `interrupt` did not raise anything here
                raise TaskInterrupt
            if not task.t_finished:
                task.t_started = now
            result = function(*args, **kwargs)
            del args, kwargs
            if runtime.unfinished_lines:
                runtime.end_lines(execution)
            if spec.streams:
                outcome = run_stream(runtime, execution, result)
            elif spec.kind == ACTOR_CREATION_TASK:
                if result is not None:
                    raise TypeError(f"__init__() should return None, not '{type(result).__name__}'")
                outcome = constructed(execution)
            elif type(result) in SIZES and spec.num_returns == 1:  # `outcome_of_return`, written out
                now = runtime.now()
                if worker.status is not DEAD and not task.t_finished:
                    task.t_ended = now
                if handle.plain_outcome is None:
                    handle.plain_outcome = Outcome()
                outcome = handle.plain_outcome  # one object: it is reported before the next attempt begins
                outcome.values, outcome.sizes = (result,), SIZES[type(result)]
            else:
                outcome = outcome_of_return(runtime, execution, result)
            del result  # its finaliser may wait for a task: here the task is still running, and can be interrupted
            return outcome
        finally:
            handle.user_task = None  # settle_interrupt, written out
            if handle.sent:
                settle_interrupt(handle)
    except BaseException as error:
        if not task.t_ended:
            note_end(runtime, execution)
        return outcome_of_error(runtime, execution, error)


def call_of(runtime: Runtime, execution: Execution) -> tuple[Any, Any, dict[str, Any]]:
    """The function, args and kwargs to call, with fresh copies of the arguments. For a constructor: `_construct`.

    Raises what an argument or the function raises when it is loaded, the error of an argument that has failed, and
    ArgumentLost if the value of an argument has been lost since the task was given to the worker.
    """
    args: Any
    kwargs: dict[str, Any]
    task = execution.task
    spec = task.spec
    if spec.kind == ACTOR_TASK:
        if type(task.args) is tuple:  # `unpack`, written out for plain arguments
            args, kwargs = task.args, {}
        else:
            args, kwargs = unpack(task.args, runtime.argument_of)
        handle = execution.worker.handle
        instance = handle.instance
        if instance is None:  # one of the actor's further threads; its first thread's handle holds the instance
            handle = actor_handle(execution.worker) or handle
            instance = handle.instance
        execution.instance = instance
        if spec.function is not None:  # a method that every actor has, such as __ray_ready__
            function, args = spec.function, (instance, *args)
        else:
            function = handle.methods[spec.options["method"]]
        return (function if runtime.tracing is None else runtime.tracing.around(execution, function)), args, kwargs
    # Load the function before the arguments: if both hold the same class, the arguments' version of it is newer and
    # wins.
    captured = spec.function
    function = captured.by_name
    if function is None:
        function = execution.space.loaded.get(captured)
        if function is None:
            function = captured.load(execution.space)
    if type(task.args) is tuple:  # as above
        args, kwargs = task.args, {}
    else:
        args, kwargs = unpack(task.args, runtime.argument_of if task.actor is None else runtime.value_of)
    if spec.kind == ACTOR_CREATION_TASK:
        return _construct, (execution, function, args, kwargs), {}
    return (function if runtime.tracing is None else runtime.tracing.around(execution, function)), args, kwargs


@enters_user_code
def _construct(execution: Execution, cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Make the actor's instance. Returns what its `__init__` returns: None, or an awaitable in an async actor.

    The instance is in the handle before `__init__` runs, so that threads and tasks that `__init__` starts can find it.
    """
    meta = execution.task.actor.meta
    if 0 in meta.groups.values():
        raise WorkerExit("SYSTEM_ERROR: a concurrency group of the actor has no thread")  # as in Ray
    handle = execution.worker.handle
    instance = cls.__new__(cls)
    # As in Ray, the class's own functions: no attribute of the instance hides one, and no later change of the class.
    for name, found in meta.info.methods.items():
        function = getattr(cls, name, None)
        handle.methods[name] = function if found.bound or function is None else MethodType(function, instance)
    execution.instance = handle.instance = instance
    if cls.__init__ is object.__init__:
        return None
    tracing = execution.runtime.tracing
    constructor = instance.__init__ if tracing is None else tracing.around(execution, instance.__init__)
    return constructor(*args, **kwargs)


def constructed(execution: Execution) -> Outcome:
    """The outcome of a constructor that has returned. If the actor's class defines __repr__, note the text."""
    note_end(execution.runtime, execution)
    instance, actor = execution.instance, execution.worker.actor
    cls: Any = type(instance)
    if cls.__repr__ is not object.__repr__:
        actor.repr_name = repr(instance)
    return returned()


def shut_down(handle: WorkerHandle | None, context: Context) -> None:
    """Let an actor that ends in order clean up: call its `__ray_shutdown__`, if it has one, in this context. An error
    of the hook is only logged."""
    instance = handle.instance if handle is not None else None
    hook = getattr(type(instance), "__ray_shutdown__", None)
    if hook is None:
        return
    try:
        returned = context.run(hook, instance)
        if isinstance(returned, CoroutineType):
            returned.close()  # never awaited, as in Ray
    except Exception:
        import logging  # only for an error

        logging.getLogger(__name__).exception("%s.__ray_shutdown__ failed", type(instance).__name__)


def _farewell(runtime: Runtime, worker: WorkerRecord, task: TaskRecord) -> None:
    """Let the actor clean up before the core is told that it ends, because it has exited or its constructor has failed.
    To everybody else the actor is still alive."""
    context = worker.handle.context if worker.handle.context is not None else Context()
    context.run(current.set, Execution(runtime, worker, task, worker.handle.space, worker.handle.ident))
    try:
        shut_down(actor_handle(worker), context)
    finally:
        context.run(current.set, None)


def unwanted_end(worker: WorkerRecord) -> bool:
    """Whether this is the worker of an actor that was ended because its last handle was dropped."""
    return bool(worker.actor is not None and worker.exit_detail == UNWANTED)


def ends_in_order(worker: WorkerRecord, handle: WorkerHandle) -> bool:
    """Whether a dead worker's exit functions run (see `process.exit_functions`): it was neither killed nor crashed."""
    intended = worker.exit_type in ("INTENDED_USER_EXIT", "USER_ERROR") or handle.process.exits
    return intended or unwanted_end(worker) or worker.actor is None and worker.exit_type == "INTENDED_SYSTEM_EXIT"


def end_process(runtime: Runtime, worker: WorkerRecord, handle: WorkerHandle) -> None:
    """At the end of a worker's thread: what Ray's worker does when its process ends. Does nothing if the worker
    lives."""
    process = handle.process
    if process.exit_functions and not runtime.closed and ends_in_order(worker, handle):
        exit_functions.run(process)
    if worker.status is DEAD:
        if process.children:
            kill_children(runtime, handle, reap=True)
        if process.signals is not None:
            worker_signals.stop_timers(process)
        if process.handle is handle:
            process.handle = None


def kill_children(runtime: Runtime, handle: WorkerHandle, reap: bool) -> None:
    """Kill the processes that the worker has started. reap: also wait until they have ended."""
    if children.wanted(runtime.options):
        children.kill(handle.process, reap)


def _store_values(task: TaskRecord, values: tuple[Any, ...]) -> None:
    """Put the values that an attempt returned into the task's returns, except where an earlier attempt's value is kept.
    The caller holds the lock."""
    for obj, value in zip(task.returns, values):
        if obj.status is PENDING or obj.status is LOST:
            obj.value = value


@writes_with_out
def report(runtime: Runtime, worker: WorkerRecord, task: TaskRecord, outcome: Outcome) -> TaskRecord | None:
    """Report the outcome of an attempt to the core, and carry out the resulting actions. The lock must not be held.

    Returns the worker's next task; None if there is none, or the worker is dead. The core ignores the report if the
    worker is dead, or the task has been given to some other worker.
    """
    cluster = runtime.cluster
    if outcome.exit and outcome.exit != "arguments":
        if outcome.exit != "worker":
            _farewell(runtime, worker, task)
            runtime.tell(cluster.actor_exited, worker, task, outcome.message, outcome.exit == "code")
        else:
            runtime.tell(cluster.worker_died, worker, Failure("WORKER_DIED", outcome.message, about=worker))
        return None
    if outcome.failure is not None and task.spec.kind == ACTOR_CREATION_TASK:
        _farewell(runtime, worker, task)
    lock = runtime.lock
    try:  # `with lock`, written out (see CoreLock)
        next(lock.enter)
    except IndexError:
        lock.wait()
    try:
        now = runtime.now()
        if runtime.dropped:  # the driver may be waiting or sleeping, so that it reports nothing itself
            cluster.references_dropped(now, runtime.dropped)
        if outcome.exit:
            actions = cluster.arguments_lost(now, worker, task)
        elif outcome.failure is not None:
            actions = cluster.task_failed(now, worker, task, outcome.failure, outcome.retry)
        elif task.worker is worker and worker.status is not DEAD:
            returns = task.returns
            if len(returns) == 1 and returns[0].status is PENDING and outcome.values:
                returns[0].value = outcome.values[0]  # nearly every task: `_store_values`, written out
            else:
                _store_values(task, outcome.values)
            actions = cluster.task_finished(now, worker, task, outcome.sizes, outcome.contained)
        else:
            actions = cluster.settled(now)
        following: TaskRecord | None = worker.task
    finally:
        next(lock.leave)
        if lock.line:
            lock.wake_one()
    if following is None:
        handle: WorkerHandle | None = worker.handle
        if handle is not None and handle.context is not None and handle.loop is None:
            # An actor's context lives on, but must not keep the task's record and arguments. A next call replaces them.
            handle.context.run(current.set, None)
    if outcome.references is not None:
        outcome.references = None  # counted now; before anybody is woken who might look for what is left
    if actions or cluster.references.freed:
        runtime.carry_out(actions)
    return following
