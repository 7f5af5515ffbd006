"""Which cases are left out where, each with its reason. An entry that is no longer needed is to be removed."""

NOT_READY: dict[str, str] = {}
"""An area (`cluster`) or a case (`cluster/node_dies`) that miniray does not answer yet, and what it waits for."""

SINCE_PYTHON: dict[tuple[int, int], tuple[str, ...]] = {
    (3, 11): (  # exception groups and notes
        "errors/chained_exceptions_and_notes",
        "errors/exception_groups",
        "reports/exception_group_from_task",
    ),
}
"""Cases whose program needs this version of Python."""

NOT_IN_LOCAL_MODE: dict[str, tuple[str, ...]] = {
    "a call holds its thread until a later one lets it go": (
        "actors/concurrency_groups",
        "actors/max_pending_calls",
        "actors/threads_in_an_actor",
        "async_actors/blocking_get_blocks_the_loop",
        "faults/queued_calls_at_a_crash",
        "generators/items_arrive_before_the_end",
        "patterns/barrier_among_tasks",
        "resources/custom_resources_limit_parallelism",
        "state/references_to_objects",
        "state/running_and_pending_tasks",
        "tasks/zero_cpu_tasks_overlap",
        "util/actor_pool_errors_and_timeouts",
        "util/queue_between_tasks",
        "wanted/state_is_current",
    ),
    "something running is cancelled, or killed, from outside": (
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
        "tasks/cancel_a_queued_task",
        "tasks/cancel_a_running_task",
        "tasks/cancel_force",
        "tasks/cancel_reaches_children",
        "wanted/cancel_of_a_sleeping_task",
    ),
    "a wait is to time out while the task runs": (
        "util/pool_async_results",
        "util/pool_odd_arguments",
        "wanted/pool_timeout_keeps_working",
        "wanted/shutdown_leaves_nothing",
    ),
    "a wait for oneself is a DeadlockError at once, where no other thread could end it": (
        "reports/actor_waiting_on_itself",
        "wanted/deadlock_is_named",
    ),
    "an actor that nobody holds any more is not asked to clean up, since that may need others to run": (
        "actors/asked_to_clean_up",
    ),
    "a task prints as its caller does, on whose thread it runs": (
        "logs/log_of_one_task",
        "logs/log_to_driver_off",
        "logs/worker_prints_reach_the_driver",
    ),
}
"""By reason: what local_mode answers otherwise, since there a task runs to its end inside the call that submits it, and a
coroutine as far as its first wait."""
