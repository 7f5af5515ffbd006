"""A worker: runs one attempt of a task, and says how it went. The same code serves every runtime.

What a task sees is what it would see in a process of its own, as far as one process allows: fresh copies of its arguments, its
own copies of functions and classes that travel by value, an empty `contextvars` context.
"""

from __future__ import annotations

import inspect
import logging
from contextvars import Context
from typing import Any

from ..core.cluster import NOTHING
from ..core.records import ACTOR_CREATION_TASK, ACTOR_TASK, LOST, PENDING, Failure, TaskRecord, WorkerRecord
from ..core.transitions import WorkerStatus
from ..process.context import Execution, current
from ..process.exits import TaskInterrupt, WorkerExit
from ..process.our_code import enters_user_code
from ..values.arguments import unpack
from .handles import WorkerHandle, actor_handle, settle_interrupt
from .outcomes import Outcome, not_stored, note_end, outcome_of_error, store
from .runtime import Runtime
from .streams import run_stream

DEAD = WorkerStatus.DEAD


def run_attempt(runtime: Runtime, worker: WorkerRecord, task: TaskRecord) -> Outcome:
    """Run the current attempt of a task that is not a coroutine, on this thread. Never raises."""
    handle = worker.handle
    execution = Execution(runtime, worker, task, handle.space, handle.ident)
    return Context().run(_run, runtime, execution, handle)


@enters_user_code
def _run(runtime: Runtime, execution: Execution, handle: WorkerHandle) -> Outcome:
    current.set(execution)
    task = execution.task
    spec = task.spec
    try:
        try:
            function, args, kwargs = call_of(runtime, execution)
            handle.user_task = task
            now = runtime.now()
            if execution.worker.status is DEAD:  # declared so meanwhile: the task is somebody else's by now
                raise WorkerExit("SYSTEM_ERROR: the worker is dead")
            if task.cancel_requested:  # meanwhile: its interrupt found nobody to be raised in
                raise TaskInterrupt
            if not task.t_finished:  # its owner has died: it runs, and is over already
                task.t_started = now
            result = function(*args, **kwargs)
            del args, kwargs
            if runtime.unfinished_lines:
                runtime.end_lines(execution)
            if spec.streams:
                outcome = run_stream(runtime, execution, result)
            elif spec.kind == ACTOR_CREATION_TASK:
                outcome = Outcome()
            else:
                now = runtime.now()  # note_end, written out
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


def call_of(runtime: Runtime, execution: Execution) -> tuple[Any, Any, dict]:
    """What to call, with fresh copies of the arguments."""
    args: Any
    kwargs: dict[str, Any]
    task = execution.task
    spec = task.spec
    if spec.kind == ACTOR_TASK:
        if type(task.args) is tuple:  # as unpack() would answer
            args, kwargs = task.args, {}
        else:
            args, kwargs = unpack(task.args, runtime.argument_of)
        instance = execution.worker.handle.instance
        if instance is None:  # another thread of the actor's
            first = actor_handle(execution.worker)
            instance = first.instance if first is not None else None
        execution.instance = instance
        if spec.function is not None:  # a method that every actor has
            return spec.function, (instance, *args), kwargs
        return getattr(instance, spec.options["method"]), args, kwargs
    if spec.kind == ACTOR_CREATION_TASK and 0 in task.actor.meta.groups.values():
        raise WorkerExit("SYSTEM_ERROR: a concurrency group of the actor has no thread")  # as in Ray
    # Before its arguments: a class that both hold is then as it came with the arguments, which are newer.
    function = spec.function.load(execution.space)
    args, kwargs = unpack(task.args, runtime.argument_of if task.actor is None else runtime.value_of)
    if spec.kind == ACTOR_CREATION_TASK:
        return _construct, (runtime, execution, function, args, kwargs), {}
    return function, args, kwargs


@enters_user_code
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


def shut_down(handle: WorkerHandle | None, context: Context) -> None:
    """An actor that ends in order is asked to clean up, by its `__ray_shutdown__`. What that raises is logged and no more."""
    instance = handle.instance if handle is not None else None
    hook = getattr(type(instance), "__ray_shutdown__", None)
    if hook is None:
        return
    try:
        returned = context.run(hook, instance)
        if inspect.iscoroutine(returned):
            returned.close()  # nobody awaits it, as in Ray
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
    if not lock.try_enter(False):  # `with lock`, written out
        lock.wait()
    try:
        now = runtime.now()
        if runtime.dropped:  # the program itself may wait, or sleep
            cluster.references_dropped(now, runtime.dropped)
        if outcome.exit:
            actions = cluster.arguments_lost(now, worker, task)
        elif outcome.failure is not None:
            actions = cluster.task_failed(now, worker, task, outcome.failure, outcome.retry)
        elif task.worker is worker and worker.status is not DEAD:
            for obj, value in zip(task.returns, outcome.values):
                if obj.status is PENDING or obj.status is LOST:  # an earlier attempt's value stays
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
