"""joblib's backend "ray", from ray.util.joblib, runs the loops of joblib and scikit-learn on a pool of actors.

Needs: scikit-learn==1.9.1

Prints:

    squares: [0, 1, 4, 9, 16, 25, 36, 49, 64, 81]
    workers, one per CPU: 3
    an error in the loop: ZeroDivisionError
    a forest is the same as without Ray: True
    a grid search finds the same as without Ray: True
    nested loops: [0, 1, 3, 6]
"""

import joblib
import ray
from ray.util.joblib import register_ray
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV


def square(x):
    return x * x


def divide(x):
    return 1 // x


def inner_sum(n):
    return sum(joblib.Parallel(n_jobs=2)(joblib.delayed(int)(k) for k in range(n + 1)))


ray.init(num_cpus=3, log_to_driver=False)
register_ray()
data, labels = make_classification(n_samples=120, random_state=0)
forest = RandomForestClassifier(n_estimators=20, random_state=0, n_jobs=-1)
grid = GridSearchCV(LogisticRegression(), {"C": [0.01, 0.1, 1.0]}, n_jobs=-1)

with joblib.parallel_backend("ray"):
    print("squares:", joblib.Parallel()(joblib.delayed(square)(n) for n in range(10)))
    print("workers, one per CPU:", joblib.effective_n_jobs(-1))
    try:
        joblib.Parallel()(joblib.delayed(divide)(n) for n in range(4))
    except ZeroDivisionError:
        print("an error in the loop: ZeroDivisionError")
    probabilities = forest.fit(data, labels).predict_proba(data)
    best = grid.fit(data, labels).best_params_
    nested = joblib.Parallel()(joblib.delayed(inner_sum)(n) for n in range(4))
print("a forest is the same as without Ray:", (probabilities == forest.fit(data, labels).predict_proba(data)).all())
print("a grid search finds the same as without Ray:", best == grid.fit(data, labels).best_params_)
print("nested loops:", nested)
ray.shutdown()
