"""AutoGluon trains the folds of a bagged model as remote tasks that share the data by reference.

Needs: autogluon.tabular==1.6.3
Needs: lightgbm==4.7.0
Needs: packaging==26.4

It asks for a Ray before 2.59, and takes another when AG_LOOSE_RAY_VERSION says so. (Models beside one another, as it trains
them from 12 CPUs on, end in `ray.internal.free`, which is gone from Ray 2.60 as well.)

Prints:

    folds in parallel, the same score as one by one: True
    a task for each fold: 3
    the test data are predicted: 100
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
print("folds in parallel, the same score as one by one:", score(parallel) == score(bagged("sequential_local")))
print("a task for each fold:", len([row for row in list_tasks() if row.name == "_ray_fit"]))
print("the test data are predicted:", len(parallel.predict(test)))
ray.shutdown()
