"""Modin cuts pandas' frames into blocks. Each operation is one task per block, or per row or column of blocks.

Needs: modin==0.37.1
Needs: pandas==2.3.3
Needs: numpy==2.3.5

Modin imports one name from Ray Data, for `to_ray`. This program does not call `to_ray`, and provides a stand-in.

Prints:

    the engine: PandasOnRayDataframe
    sums by group are the same as in pandas: True
    a function for each row: 999000.0
    merged: (1000, 3), appended: (2000, 2), sorted: [5.0, 999.0]
    a moving mean: 4851.0
    written to a file and read back: (1000, 2)
    an error in a function: ZeroDivisionError
    tasks processed the blocks: True
"""

import importlib
import os
import sys
import tempfile
import types
import warnings

import numpy as np
import pandas
import ray
from ray.util.state import summarize_tasks

sys.modules["ray.data"] = types.ModuleType("ray.data")
sys.modules["ray.data"].from_pandas_refs = None
warnings.simplefilter("ignore")
ray.init(num_cpus=2, log_to_driver=False)
modin = importlib.import_module("modin.pandas")  # after the stand-in for Ray Data
config = importlib.import_module("modin.config")
config.Engine.put("ray")
config.NPartitions.put(4)
columns = {"k": np.arange(1000) % 7, "v": np.arange(1000.0)}
frame, plain = modin.DataFrame(columns), pandas.DataFrame(columns)
print("the engine:", type(frame._query_compiler._modin_frame).__name__)
print(
    "sums by group are the same as in pandas:",
    frame.groupby("k").v.sum().to_dict() == plain.groupby("k").v.sum().to_dict(),
)
print("a function for each row:", frame.apply(lambda row: row.v * 2, axis=1).sum())
print(
    f"merged: {frame.merge(frame.head(7), on='k').shape}, appended: {modin.concat([frame, frame]).shape}, "
    f"sorted: {frame.sort_values('v', ascending=False).iloc[0].tolist()}"
)
print("a moving mean:", modin.Series(np.arange(100.0)).rolling(3).mean().sum())
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "frame.csv")
    frame.to_csv(path, index=False)
    print("written to a file and read back:", modin.read_csv(path).shape)
try:
    frame.apply(lambda row: 1 // 0, axis=1)
except ZeroDivisionError:
    print("an error in a function: ZeroDivisionError")
print("tasks processed the blocks:", summarize_tasks()["cluster"]["total_tasks"] > 50)
ray.shutdown()
