"""The exceptions that end a task, a worker or an actor from inside. None of them is an Exception: user code should not stop one."""

from __future__ import annotations

from .context import current


class WorkerExit(BaseException):
    """Ends the worker in which it is raised: `os._exit`, a signal to the own process, or a kill, inside a task."""


class ActorExit(BaseException):
    """Ends the actor in which it is raised: `exit_actor`, `__ray_terminate__`."""


class SessionEnded(BaseException):
    """Raised in a task whose session is shut down while it waits."""


class TaskInterrupt(KeyboardInterrupt):
    """The KeyboardInterrupt of a cancelled task. The constructor notes that it has reached the task's code."""

    def __init__(self, *args: object):
        super().__init__(*args)
        execution = current.get()
        if execution is not None and execution.task.cancel_requested:
            execution.task.was_interrupted = True
