"""Options beyond 32 bits (the generator's lead: 64) are refused at .remote(); amounts may be as large as they like."""


def run(ctx):
    ray = ctx.ray

    def one():
        return 1

    for options in (dict(num_returns=2**31), dict(max_retries=2**31), dict(max_retries=2**31 - 1),
                    dict(_generator_backpressure_num_objects=2**63), dict(num_cpus=10**15), dict(num_cpus=float("inf")),
                    dict(num_gpus=10**20), dict(num_gpus=1.00001), dict(num_cpus=1.00001), dict(resources={"a": 10**20}),
                    dict(num_returns=2.0), dict(max_retries=1.0)):
        ctx.show(options)
        try:
            ref = ray.remote(**options)(one).remote()
        except Exception as error:
            ctx.show("raises", type(error).__name__)
        else:
            ctx.show(type(ref).__name__, ray.cancel(ref))
