"""EvoTorch evaluates its populations on an ActorPool of Ray actors, each with its own copy of the problem.

Needs: torch==2.13.0
Needs: gymnasium==1.4.0
Needs: pandas==3.1.1
Needs: packaging==26.4
Needs alone: evotorch==0.6.1

Prints:

    the actors: {'EvaluationActor': 2}
    evaluations by actors are the same as without: True
    below 0.5 after twenty generations: True
"""

import logging
from collections import Counter

import ray
import torch
from evotorch import Problem
from evotorch.algorithms import SNES


def norm(x):
    return torch.sum(x**2)


logging.disable(logging.INFO)
ray.init(num_cpus=2, log_to_driver=False)
torch.manual_seed(1)
torch.set_num_threads(1)


def searched(num_actors):
    problem = Problem("min", norm, solution_length=4, initial_bounds=(-2, 2), num_actors=num_actors)
    search = SNES(problem, stdev_init=1.0, popsize=20)
    search.run(1)
    return problem, search


problem, search = searched(2)
population = search.population
again = torch.stack([norm(values) for values in population.values])
rows = ray._private.state.actors().values()
print("the actors:", dict(Counter(row["ActorClassName"] for row in rows)))
print("evaluations by actors are the same as without:", torch.allclose(population.evals[:, 0], again))
search.run(20)
print("below 0.5 after twenty generations:", float(search.status["best_eval"]) < 0.5)
problem.kill_actors()
ray.shutdown()
