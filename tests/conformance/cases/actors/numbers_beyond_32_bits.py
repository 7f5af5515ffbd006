"""Options that Ray keeps in 32 bits are OverflowErrors beyond, when the actor is made or the method called."""


def run(ctx):
    ray = ctx.ray

    class Worker:
        def pair(self):
            return 1, 2

    for option in "max_concurrency", "max_task_retries", "max_pending_calls":
        made = ray.remote(**{option: 2**31})(Worker)
        ctx.show(option)
        ctx.raises(lambda: type(made.remote().pair.remote()).__name__)
        ctx.raises(lambda: type(ray.remote(Worker).options(**{option: 2**40}).remote().pair.remote()).__name__)
    worker = ray.remote(Worker).remote()
    for count in 2**31, 2.5, 1.5, True, 0.5:
        ctx.show(count)
        ctx.raises(lambda: type(worker.pair.options(num_returns=count).remote()).__name__)
