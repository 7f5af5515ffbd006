"""The exceptions that end a task, a worker or an actor from inside.

None of them derives from Exception, so that `except Exception` in user code does not stop them.
"""

from __future__ import annotations

from .context import current

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class WorkerExit(BaseException):
    """Ends the worker in which it is raised: `os._exit`, a signal to the task's own process, or a kill."""


class ActorExit(BaseException):
    """Ends the actor in which it is raised, in order: `exit_actor` or `__ray_terminate__` was called."""


class SessionEnded(BaseException):
    """Raised in a task whose session is shut down while it waits."""


class TaskInterrupt(KeyboardInterrupt):
    """The KeyboardInterrupt of a cancelled task. Python calls the constructor in the task's thread, when it raises the
    exception there; so the constructor notes in the task's record that the interrupt has arrived."""

    def __init__(self, *args: object):
        super().__init__(*args)
        execution = current.get()
        if execution is not None and execution.task.cancel_requested:
            execution.task.was_interrupted = True

    def __reduce__(self) -> tuple[Any, ...]:
        return KeyboardInterrupt, self.args  # what a task receives that is sent the exception


# What a task that catches it sees, and prints. Only the identity of the class is not KeyboardInterrupt's.
TaskInterrupt.__name__ = TaskInterrupt.__qualname__ = "KeyboardInterrupt"
TaskInterrupt.__module__ = "builtins"
