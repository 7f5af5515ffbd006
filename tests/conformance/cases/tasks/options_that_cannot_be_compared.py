"""An option may be given a value whose equality, truth or hash fails: it is checked by its type."""


class NoEquality:
    def __eq__(self, other):
        raise KeyError("equality")

    __hash__ = None


class NoTruth:
    def __bool__(self):
        raise KeyError("truth")


NAMES = """num_returns max_retries retry_exceptions num_cpus num_gpus resources name memory runtime_env scheduling_strategy
enable_task_events max_calls label_selector fallback_strategy max_restarts max_task_retries max_pending_calls max_concurrency
concurrency_groups lifetime namespace get_if_exists allow_out_of_order_execution placement_group
placement_group_bundle_index _metadata _labels _generator_backpressure_num_objects concurrency_group""".split()


def run(ctx):
    ray = ctx.ray

    @ray.remote
    class Counter:
        def one(self):
            return 1

    @ray.remote
    def task():
        return 1

    def outcome(call):
        try:
            call()
        except Exception as error:
            return type(error).__name__
        return "accepted"

    actor = Counter.remote()
    for name in NAMES:
        for value in NoEquality(), NoTruth():
            given = {name: value}
            ctx.show(name, type(value).__name__, outcome(lambda: task.options(**given)), outcome(lambda: Counter.options(**given)),
                     outcome(lambda: actor.one.options(**given)), outcome(lambda: ray.method(**given)))
