"""Hamilton runs a graph of functions. Its Ray adapter runs each function as a task; its executor, each parallel branch.

Needs: sf-hamilton==1.90.0

Prints:

    {'cost': 2.0, 'total_spend': 42}
    tasks: ['build_result', 'new_fn']
    a decorator requests half a CPU: True
    the session stays open after the graph: True
    five branches in parallel: {'summed': 30}
    an error in a branch: ZeroDivisionError
    a session is open after the executor: False
"""

import ray
from hamilton import ad_hoc_utils, base, driver
from hamilton.function_modifiers.metadata import RayRemote
from hamilton.htypes import Collect, Parallelizable
from hamilton.plugins.h_ray import RayGraphAdapter, RayTaskExecutor
from ray.util.state import list_tasks


def spend() -> list[int]:
    return [10, 12, 20]


def signups() -> list[int]:
    return [9, 4, 8]


@RayRemote(num_cpus=0.5)
def total_spend(spend: list[int]) -> int:
    return sum(spend)


def total_signups(signups: list[int]) -> int:
    return sum(signups)


def cost(total_spend: int, total_signups: int) -> float:
    return total_spend / total_signups


def n(count: int) -> Parallelizable[int]:
    yield from range(count)


def squared(n: int, divisor: int) -> int:
    return n * n // divisor


def summed(squared: Collect[int]) -> int:
    return sum(squared)


funnel = ad_hoc_utils.create_temporary_module(spend, signups, total_spend, total_signups, cost, module_name="funnel")
adapter = RayGraphAdapter(result_builder=base.DictResult(), ray_init_config={"num_cpus": 2, "log_to_driver": False})
print(driver.Builder().with_modules(funnel).with_adapters(adapter).build().execute(["cost", "total_spend"]))
rows = list_tasks(detail=True)
print("tasks:", sorted({row.name for row in rows}))
print("a decorator requests half a CPU:", {"CPU": 0.5} in [row.required_resources for row in rows])
print("the session stays open after the graph:", ray.is_initialized())
ray.shutdown()

squares = ad_hoc_utils.create_temporary_module(n, squared, summed, module_name="squares")
parallel = (
    driver.Builder()
    .with_modules(squares)
    .enable_dynamic_execution(allow_experimental_mode=True)
    .with_remote_executor(RayTaskExecutor(num_cpus=2, ray_init_config={"log_to_driver": False}))
    .build()
)
print("five branches in parallel:", parallel.execute(["summed"], inputs={"count": 5, "divisor": 1}))
try:
    parallel.execute(["summed"], inputs={"count": 5, "divisor": 0})
except ZeroDivisionError:
    print("an error in a branch: ZeroDivisionError")
print("a session is open after the executor:", ray.is_initialized())
