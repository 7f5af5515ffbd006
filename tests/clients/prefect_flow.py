"""Prefect runs flows of tasks. Its task runner for Ray makes each call a remote task, and wraps references in futures.

Needs: prefect==3.9.1
Needs alone: prefect-ray==0.6.0

Prints:

    the sum of five squares: 30
    a task fails after 2 tries: FAILED
    a task that depends on it does not run: PENDING
    a flow leaves the session open: True
    half a CPU for each square: 5
"""

import os
import tempfile

os.environ.update(
    PREFECT_HOME=tempfile.mkdtemp(),
    PREFECT_LOGGING_LEVEL="CRITICAL",
    DO_NOT_TRACK="1",
    PREFECT_SERVER_ANALYTICS_ENABLED="false",
    PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS="200",
)

import ray
from prefect import flow, task
from prefect_ray import RayTaskRunner
from prefect_ray.context import remote_options
from ray.util.state import list_tasks

tries = os.path.join(tempfile.mkdtemp(), "tries")


@task
def square(x):
    return x * x


@task
def total(xs):
    return sum(xs)


@task(retries=1)
def flaky():
    with open(tries, "a") as file:
        file.write("*")
    raise ValueError("no luck today")


@flow(task_runner=RayTaskRunner())
def squares(count):
    with remote_options(num_cpus=0.5):
        futures = square.map(range(count))
    return total.submit(futures).result()


@flow(task_runner=RayTaskRunner())
def unlucky():
    first = flaky.submit()
    then = total.submit([first])
    first.wait()
    then.wait()
    return first.state.type.name, then.state.type.name


ray.init(num_cpus=2, log_to_driver=False)
print("the sum of five squares:", squares(5))
first, then = unlucky()
with open(tries) as file:
    print(f"a task fails after {len(file.read())} tries:", first)
print("a task that depends on it does not run:", then)
print("a flow leaves the session open:", ray.is_initialized())
rows = [row for row in list_tasks(detail=True) if row.name == "square"]
print("half a CPU for each square:", len([row for row in rows if row.required_resources == {"CPU": 0.5}]))
ray.shutdown()
