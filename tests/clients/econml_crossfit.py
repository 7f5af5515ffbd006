"""EconML estimates effects from observations. With `use_ray=True`, each fold of its cross-fitting is a remote task.

Needs: econml==0.17.0
Needs: packaging==26.4

Prints:

    the same effects as without Ray: True
    tasks for three folds: 3
    with their options: {'CPU': 2.0}
"""

import warnings

import numpy as np
import ray
from econml.dml import LinearDML
from ray.util.state import list_tasks
from sklearn.linear_model import LinearRegression

warnings.simplefilter("ignore")
chance = np.random.default_rng(0)
features = chance.normal(size=(300, 2))
treatment = features[:, 0] + chance.normal(size=300)
outcome = 2 * treatment + features[:, 1] + chance.normal(size=300)


def effects(**how):
    estimator = LinearDML(model_y=LinearRegression(), model_t=LinearRegression(), cv=3, random_state=1, **how)
    return estimator.fit(outcome, treatment, X=features).effect(features[:5])


ray.init(num_cpus=2, log_to_driver=False)
print(
    "the same effects as without Ray:",
    np.allclose(effects(use_ray=True, ray_remote_func_options={"num_cpus": 2}), effects()),
)
folds = [row for row in list_tasks(detail=True) if row.name == "_fit_fold"]
print("tasks for three folds:", len(folds))
print("with their options:", folds[0].required_resources)
ray.shutdown()
