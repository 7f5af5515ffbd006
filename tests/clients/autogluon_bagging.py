"""AutoGluon trains the folds of a bagged model as remote tasks that share the data by reference.

Needs: autogluon.tabular==1.6.3
Needs: lightgbm==4.7.0
Needs: packaging==26.4

AutoGluon needs a Ray before 2.59, unless AG_LOOSE_RAY_VERSION is set. (From 12 CPUs on it trains models in parallel,
which fails at `ray.internal.free`; Ray 2.60 no longer has this function either.)

Prints:

    folds in parallel give the same score as one by one: True
    tasks for three folds: 3
    predictions for the test data: 100
"""

import logging
import os
import tempfile
import warnings

os.environ["AG_LOOSE_RAY_VERSION"] = "True"
warnings.simplefilter("ignore")
logging.disable(logging.ERROR)

import numpy as np
import pandas as pd
import ray
from autogluon.tabular import TabularPredictor
from ray.util.state import list_tasks

chance = np.random.default_rng(0)
data = pd.DataFrame(chance.normal(size=(500, 3)), columns=list("abc"))
data["label"] = (data.a + data.b * data.c > 0).astype(int)
train, test = data[:400], data[400:]


def bagged(strategy):
    predictor = TabularPredictor(label="label", path=tempfile.mkdtemp(), verbosity=0)
    predictor.fit(
        train,
        hyperparameters={"GBM": {"num_boost_round": 20}},
        num_bag_folds=3,
        num_bag_sets=1,
        num_cpus=2,
        memory_limit=4,
        fit_weighted_ensemble=False,
        ag_args_ensemble={"fold_fitting_strategy": strategy},
    )
    return predictor


def score(predictor):
    return predictor.leaderboard()["score_val"][0]


ray.init(num_cpus=2, log_to_driver=False)
parallel = bagged("parallel_local")
print("folds in parallel give the same score as one by one:", score(parallel) == score(bagged("sequential_local")))
print("tasks for three folds:", len([row for row in list_tasks() if row.name == "_ray_fit"]))
print("predictions for the test data:", len(parallel.predict(test)))
ray.shutdown()
