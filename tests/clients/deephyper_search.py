"""DeepHyper evaluates configurations in remote tasks, which it awaits, and keeps its records in a named actor.

Needs: deephyper==0.13.2

Prints:

    20 configurations on 2 workers, the best has the letter 'a'
    a run that returns F is a failed job: {'F'}
    the jobs are in an actor: MemoryStorage ALIVE
    each configuration was a task: True
"""

import logging
import tempfile

import ray
from deephyper.evaluator import Evaluator
from deephyper.hpo import HpProblem, RandomSearch
from ray.util.state import list_actors, list_tasks


def run(job):
    return 10 * (job.parameters["letter"] == "a") + job.parameters["number"]


def fails(job):
    return "F"


def searched(function, evaluations):
    problem = HpProblem()
    problem.add_hyperparameter(["a", "b"], "letter")
    problem.add_hyperparameter((1, 4), "number")
    evaluator = Evaluator.create(function, method="ray", method_kwargs={"num_cpus": 2})
    with tempfile.TemporaryDirectory() as folder:
        search = RandomSearch(problem, random_state=1, log_dir=folder)
        return search.search(evaluator, max_evals=evaluations, max_evals_strict=True), evaluator


logging.disable(logging.WARNING)
ray.init(num_cpus=2, log_to_driver=False, namespace="deephyper")
results, evaluator = searched(run, 20)
best = results.loc[results["objective"].idxmax()]
print(f"{len(results)} configurations on {evaluator.num_workers} workers, the best has the letter {best['p:letter']!r}")
results, evaluator = searched(fails, 1)
print("a run that returns F is a failed job:", set(results["objective"]))
actor = list_actors(filters=[("state", "=", "ALIVE")])[0]  # alive as long as the evaluator has a handle
print("the jobs are in an actor:", actor.class_name, actor.state)
runs = [row for row in list_tasks(limit=1000) if row.func_or_class_name == "run"]
print("each configuration was a task:", len(runs) >= 20)
ray.shutdown()
