"""spark-bestfit fits each of scipy's distributions to a column. Its Ray backend runs each batch of fits as a task.

Needs: spark-bestfit==3.0.3

Prints:

    fitted: alpha anglit arcsine argus beta betaprime
    the same fits as on the local backend: True
    each fit ran in a task: True
"""

import warnings

import numpy as np
import pandas as pd
import ray
from ray.util.state import list_tasks
from spark_bestfit import DistributionFitter
from spark_bestfit.backends.local import LocalBackend
from spark_bestfit.backends.ray import RayBackend

warnings.simplefilter("ignore")
table = pd.DataFrame({"x": np.random.default_rng(7).normal(10, 2, 400)})
ray.init(num_cpus=2, log_to_driver=False)


def fitted(backend):
    results = DistributionFitter(backend=backend).fit(table, column="x", max_distributions=6)
    return {result.distribution: round(result.sse, 6) for result in results.best(n=10, metric="sse")}


on_ray = fitted(RayBackend(num_cpus=2))
print("fitted:", *sorted(on_ray))
print("the same fits as on the local backend:", on_ray == fitted(LocalBackend()))
print("each fit ran in a task:", len(list_tasks()) >= len(on_ray))
ray.shutdown()
