"""The cases that are skipped, each with its reason. Remove an entry when it is no longer needed."""

from __future__ import annotations

import dataclasses

NOT_READY: dict[str, str] = {}
"""Areas (`cluster`) and cases (`cluster/node_dies`) that miniray cannot run yet, with the reason."""

SINCE_PYTHON: dict[tuple[int, int], tuple[str, ...]] = {
    (3, 11): (  # exception groups and notes
        "errors/chained_exceptions_and_notes",
        "errors/exception_groups",
        "reports/exception_group_from_task",
        "threads/contextvars_and_locals",  # asyncio.timeout
        "threads/what_the_main_thread_allows",  # decimal.localcontext(prec=)
    ),
}
"""Cases whose program needs at least this version of Python."""


def subclasses_of_frozen_classes_can_set() -> bool:
    """Whether a subclass of a frozen dataclass with slots can set attributes of its own. Python 3.13 learned it in one
    of its later releases."""

    @dataclasses.dataclass(frozen=True, slots=True)
    class Frozen:
        a: int = 1

    try:
        type("Sub", (Frozen,), {})().b = 2
    except TypeError:
        return False
    return True


UNTIL_PYTHON: dict[tuple[int, ...], tuple[str, ...]] = {
    (3, 13): (  # `inspect` has no signature for a __class_getitem__ that is made from GenericAlias
        "classes/abstract_actor_classes",
        "classes/actors_of_builtin_classes",
        "classes/classes_that_are_refused",
    ),
    (3, 13, 0) if subclasses_of_frozen_classes_can_set() else (3, 14, 0): ("classes/dataclasses_and_slots_as_actors",),
    (3, 14): (  # the text of Optional, how a partialmethod is pickled
        "functions/names_docs_and_signatures",
        "functions/partials_and_builtins",
        "threads/threads_that_tasks_see",  # get_event_loop makes no loop
        "threads/what_the_main_thread_allows",
        "workers/children_end_with_their_worker",
    ),
}
"""Cases whose answer was recorded on 3.11 and is another since this version of Python, whose rules it shows."""

NOT_IN_LOCAL_MODE: dict[str, tuple[str, ...]] = {
    "a call blocks its thread until a later call releases it": (
        "actors/an_actor_that_has_left_and_drains",
        "actors/children_of_an_owner_that_ends",
        "actors/concurrency_groups",
        "actors/max_pending_calls",
        "actors/threads_in_an_actor",
        "actors/values_of_an_owner_that_ends",
        "actors/work_of_an_actor_that_is_terminated",
        "actors/work_of_an_owner_that_crashes",
        "actors/work_of_an_owner_that_ends_in_good_order",
        "async_actors/a_blocked_group_holds_up_only_itself",
        "async_actors/blocking_get_blocks_the_loop",
        "errors/what_a_cancelled_error_knows",
        "faults/queued_calls_at_a_crash",
        "generators/items_arrive_before_the_end",
        "patterns/barrier_among_tasks",
        "resources/custom_resources_limit_parallelism",
        "state/references_to_objects",
        "tasks/a_cancelled_task_waits_for_nothing_more",
        "state/running_and_pending_tasks",
        "tasks/zero_cpu_tasks_overlap",
        "util/actor_pool_errors_and_timeouts",
        "util/queue_between_tasks",
        "wanted/state_is_current",
    ),
    "a running task or actor is cancelled or killed by another thread": (
        "actors/cancel_actor_calls",
        "actors/cancelled_while_it_ran",
        "actors/kill_ends_pending_and_later_calls",
        "cluster/task_retried_when_its_node_dies",
        "errors/a_task_may_handle_its_cancellation",
        "errors/cancelled_error_classes",
        "faults/pending_refs_die_with_their_owner",
        "patterns/search_with_early_stop",
        "state/cancelled_before_they_ran",
        "state/tasks_of_a_dead_actor",
        "state/what_ended_by_an_interruption",
        "tasks/cancel_a_queued_task",
        "tasks/cancel_a_running_task",
        "tasks/cancel_force",
        "tasks/cancel_reaches_children",
        "wanted/cancel_of_a_sleeping_task",
        "workers/children_end_with_their_worker",
    ),
    "a wait must time out while the task runs": (
        "util/pool_async_results",
        "util/pool_odd_arguments",
        "wanted/pool_timeout_keeps_working",
        "wanted/shutdown_leaves_nothing",
    ),
    "a task that waits for itself raises DeadlockError at once, since no other thread could end the wait": (
        "reports/actor_waiting_on_itself",
        "wanted/deadlock_is_named",
    ),
    "a task runs on its caller's thread, which is the main thread also for an actor that has several threads on Ray, and on "
    "which another task may have left an event loop or a signal handler": (
        "threads/contextvars_and_locals",
        "threads/signals_a_task_sends_itself",
        "threads/threads_that_tasks_see",
        "threads/timers_and_waits_of_tasks",
        "threads/what_the_main_thread_allows",
    ),
    "an actor without handles does not get to clean up, since its cleanup may need other tasks to run": (
        "actors/asked_to_clean_up",
    ),
    "a task prints to its caller's stdout, since it runs on the caller's thread": (
        "workers/bytes_written_to_the_streams",
        "errors/text_that_utf8_cannot_encode",
        "logs/log_of_one_task",
        "logs/log_to_driver_off",
        "logs/prints_of_threads_and_processes",
        "values/streams_of_a_worker_cannot_be_sent",
        "logs/worker_prints_reach_the_driver",
    ),
}
"""By reason: cases that give another answer in local_mode. There a task runs to its end inside the call that submits
it, and a coroutine runs up to its first wait.
"""

NOT_SIMULATED: dict[str, tuple[str, ...]] = {
    "it looks inside a lock, and the locks of a simulation are written in Python": ("util/inspect_serializability",),
}
"""Cases that cannot run on the simulated runtime, by the reason."""

UNREPEATED: dict[str, tuple[str, ...]] = {
    "it waits for child processes, which take real time": (
        "logs/prints_of_threads_and_processes",
        "reports/script_ends_by_itself",
        "resources/cuda_visible_devices",
        "tasks/environment_variables",
        "threads/what_the_main_thread_allows",
        "workers/children_end_with_their_worker",
    ),
}
"""Cases whose event log is not the same in two simulations with the same seed, by the reason."""
