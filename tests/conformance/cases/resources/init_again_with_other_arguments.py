"""While a session runs, init with ignore_reinit_error looks at the names of its arguments, not at their values."""
import logging

INIT = None


def run(ctx):
    ray = ctx.ray
    first = dict(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False)
    ray.init(**first, logging_level=logging.ERROR)
    for given in (
        dict(logging_level=logging.ERROR),
        dict(logging_level="error"),
        dict(num_cpus=2, logging_level=logging.ERROR),
        dict(runtime_env={"env_vars": {"A": "1"}}),
        dict(runtime_env=None, logging_format="%(message)s"),
        dict(resources={"x": 1}, labels={"a": "b"}, namespace="other"),
    ):
        context = ray.init(ignore_reinit_error=True, **given)
        ctx.show(sorted(given), ray.cluster_resources()["CPU"])
        ctx.raises(lambda: ray.init(**given), "RuntimeError")
        del context
    ctx.raises(lambda: ray.init(ignore_reinit_error=True, no_such_argument=1), "RuntimeError")
    ray.shutdown()
