"""cosmos-xenna runs NVIDIA's pipelines: each stage is a pool of actors, which an allocator places and scales.

Needs: attrs==26.1.0
Needs: cattrs==26.2.1
Needs: Jinja2==3.1.6
Needs: loguru==0.7.3
Needs: numpy==2.4.6
Needs: obstore==0.8.2
Needs: portpicker==1.6.0
Needs: psutil==7.2.2
Needs: PuLP==3.3.2
Needs: tabulate==0.10.0
Needs: tqdm==4.70.1
Needs alone: cosmos-xenna==0.3.0

Prints:

    stage by stage, sorted: [1, 21, 41, 61, 81, 101, 121, 141, 161, 181]
    all stages at once, sorted: [1, 21, 41, 61, 81, 101, 121, 141, 161, 181]
    the actors of both runs have ended: True
    an error in a stage: ValueError
"""

import contextlib
import io

import cosmos_xenna.pipelines.v1 as xenna
import ray
from loguru import logger
from ray.util.state import list_actors


class Scaled(xenna.Stage):
    """A stage that multiplies each sample by a factor and adds a summand."""

    required_resources = xenna.Resources(cpus=0.25)
    stage_batch_size = 2

    def __init__(self, factor, summand=0):
        self.factor, self.summand = factor, summand

    def setup(self, worker_metadata):
        self.ready = True

    def process_data(self, samples):
        if not self.factor:
            raise ValueError("nothing times anything")
        return [sample * self.factor + self.summand for sample in samples if self.ready]


def run(mode, *stages):
    config = xenna.PipelineConfig(execution_mode=mode, return_last_stage_outputs=True)
    spec = xenna.PipelineSpec(
        input_data=list(range(10)), stages=[xenna.StageSpec(stage) for stage in stages], config=config
    )
    with contextlib.redirect_stdout(io.StringIO()):  # hide the tables that it prints
        return xenna.run_pipeline(spec)


logger.remove()
ray.init(num_cpus=3, log_to_driver=False)
print("stage by stage, sorted:", sorted(run(xenna.ExecutionMode.BATCH, Scaled(2), Scaled(10, 1))))
print("all stages at once, sorted:", sorted(run(xenna.ExecutionMode.STREAMING, Scaled(2), Scaled(10, 1))))
print("the actors of both runs have ended:", {row.state for row in list_actors()} == {"DEAD"})
try:
    run(xenna.ExecutionMode.STREAMING, Scaled(0))
except ValueError:
    print("an error in a stage: ValueError")
ray.shutdown()
