"""sktime runs its loops on a backend of your choice. With `backend="ray"`, each iteration is a remote task.

Needs: sktime==1.2.0

Prints:

    folds evaluated: 4, the same as without Ray: True
    grid search found window_length=3, the same as without Ray: True
    an existing session stays open: True
"""

import warnings

import numpy as np
import pandas as pd
import ray
from sktime.forecasting.model_evaluation import evaluate
from sktime.forecasting.model_selection import ForecastingGridSearchCV
from sktime.forecasting.naive import NaiveForecaster
from sktime.split import ExpandingWindowSplitter

warnings.simplefilter("ignore")

series = pd.Series(np.arange(40) % 3 + np.arange(40) / 10.0)
splits = ExpandingWindowSplitter(fh=[1, 2], initial_window=24, step_length=4)
ray.init(num_cpus=2, log_to_driver=False)
on_ray = {"backend": "ray", "backend_params": {"shutdown_ray": False}}

scores = evaluate(NaiveForecaster(), splits, series, **on_ray)
alone = evaluate(NaiveForecaster(), splits, series)
column = "test_MeanAbsolutePercentageError"
print(f"folds evaluated: {len(scores)}, the same as without Ray:", np.allclose(scores[column], alone[column]))

grid = {"window_length": [2, 3, 4]}
search = ForecastingGridSearchCV(NaiveForecaster("mean"), cv=splits, param_grid=grid, **on_ray).fit(series)
alone = ForecastingGridSearchCV(NaiveForecaster("mean"), cv=splits, param_grid=grid).fit(series)
print(
    f"grid search found window_length={search.best_params_['window_length']}, the same as without Ray:",
    search.best_params_ == alone.best_params_,
)
print("an existing session stays open:", ray.is_initialized())
ray.shutdown()
