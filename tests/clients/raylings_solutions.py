"""Raylings teaches Ray with small exercises. This runs its solutions, with their checks, of every chapter on Ray Core.

Needs: numpy==2.4.6
Needs: rich==15.0.0
Needs alone: raylings==0.10.1

Left out: `basics05` needs three CPUs, `cluster04` submits a job to a cluster, `finance03` uses Ray Data.

Prints:

    01_basics: 5 solved
    02_actors: 7 solved
    03_object_store: 6 solved
    04_scheduling_resources: 6 solved
    05_fault_tolerance: 4 solved
    06_cluster_architecture: 3 solved
    07_patterns_and_antipatterns: 4 solved
    09_ml_from_scratch: 4 solved
    13_observability_and_debugging: 3 solved
    18_quant_finance: 2 solved
"""

import contextlib
import importlib.util
import io
import pathlib
import runpy

import ray

LEFT_OUT = {"basics05", "cluster04", "finance03"}
CHAPTERS = (
    "01_basics",
    "02_actors",
    "03_object_store",
    "04_scheduling_resources",
    "05_fault_tolerance",
    "06_cluster_architecture",
    "07_patterns_and_antipatterns",
    "09_ml_from_scratch",
    "13_observability_and_debugging",
    "18_quant_finance",
)

folder = pathlib.Path(importlib.util.find_spec("raylings").submodule_search_locations[0], "solutions")
for chapter in CHAPTERS:
    solved, failed = 0, []
    for path in sorted((folder / chapter).glob("*.py")):
        if path.stem in LEFT_OUT:
            continue
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                runpy.run_path(str(path), run_name="__main__")
            solved += 1
        except Exception as error:
            failed.append(f"  {path.stem}: {type(error).__name__}: {error}")
        ray.shutdown()
    print(f"{chapter}: {solved} solved")
    for line in failed:
        print(line)
