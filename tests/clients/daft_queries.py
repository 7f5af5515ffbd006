"""Daft plans a query and runs its steps on Ray: one actor per node runs them, and other actors run stateful functions.

Needs: daft==0.7.26
Needs: pyarrow==25.0.1

Prints:

    a filter and a sum by group: {'letter': ['x', 'y'], 'n': [6, 6]}
    a join after a shuffle: {'letter': ['x', 'y', 'z'], 'n': [1200, 1225, 1250], 'weight': [10, 20, 30]}
    a user-defined function: {'n': [0, 2, 4]}
    a user-defined class, on actors: {'n': [100, 101, 102]}
    an error in a function: ValueError
    the actors: ['RaySwordfishActor', 'RemoteFlotillaRunner', 'UDFActor', '_LimitCounterImpl']
"""

import os
import warnings

os.environ.update(DAFT_PROGRESS_BAR="0", DO_NOT_TRACK="1")

import daft
import ray
from daft import DataType, col
from ray.util.state import list_actors

warnings.simplefilter("ignore")


@daft.udf(return_dtype=DataType.int64())
def doubled(values):
    return [2 * value for value in values.to_pylist()]


@daft.udf(return_dtype=DataType.int64(), concurrency=2)
class Raised:
    def __init__(self):
        self.by = 100

    def __call__(self, values):
        return [value + self.by for value in values.to_pylist()]


@daft.func
def refuses(value: int) -> int:
    raise ValueError(f"not {value}")


def first(column, rows=3):
    return numbers.select(column.alias("n")).limit(rows).to_pydict()


ray.init(num_cpus=2, log_to_driver=False)
daft.set_runner_ray(noop_if_initialized=True)
small = daft.from_pydict({"n": [1, 2, 3, 4, 5], "letter": list("xyxyx")})
print(
    "a filter and a sum by group:",
    small.where(col("n") != 3).groupby("letter").agg(col("n").sum()).sort("letter").to_pydict(),
)
numbers = daft.from_pydict({"n": list(range(100)), "letter": list("xyzw") * 25})
weights = daft.from_pydict({"letter": list("xyz"), "weight": [10, 20, 30]})
joined = numbers.repartition(4).join(weights, on="letter").groupby("letter")
print("a join after a shuffle:", joined.agg(col("n").sum(), col("weight").max()).sort("letter").to_pydict())
print("a user-defined function:", first(doubled(col("n"))))
print("a user-defined class, on actors:", first(Raised(col("n"))))
try:
    first(refuses(col("n")))
except Exception as error:
    print("an error in a function:", "ValueError" if "ValueError: not 0" in str(error) else error)
print("the actors:", sorted({row.class_name for row in list_actors()}))
