"""RayOrch runs pipelines of batched functions on pools of actors, and keeps the order although stages overlap.

Needs alone: rayorch==0.1.1

Prints:

    two stages of two actors: [11, 21, 31, 41, 51]
    documents, reassembled from their pages in order: [['A1', 'A2', 'A3'], ['B1']]
    one actor per replica: {'_RayWorkerActor': 4}
"""

from collections import Counter

import ray
import rayorch as ro
from ray.util.state import list_actors


class Times:
    def __init__(self, factor):
        self.factor = factor

    def run(self, values):
        return [value * self.factor for value in values]


class AddOne:
    def run(self, values):
        return [value + 1 for value in values]


class Split:
    def run(self, documents):
        return [document.split() for document in documents]


class Upper:
    def run(self, pages):
        return [page.upper() for page in pages]


class Arithmetic(ro.Pipeline):
    def __init__(self):
        self.times = ro.RayModule(Times).pre_init(10).ray_options(replicas=2, batch_size=2, num_cpus=0)
        self.add = ro.RayModule(AddOne).ray_options(replicas=2, batch_size=2, num_cpus=0)

    def forward(self, values):
        return self.add(self.times(values))


class Documents(ro.Pipeline):
    def __init__(self):
        self.split = ro.RayModule(Split).ray_options(replicas=1, batch_size=2, num_cpus=0)
        self.upper = ro.RayModule(Upper).ray_options(replicas=2, batch_size=2, num_cpus=0)

    def forward(self, documents):
        pages = ro.F.expand(self.split(documents))
        return ro.F.reduce(self.upper(pages))


ray.init(num_cpus=2, log_to_driver=False)
print(
    "two stages of two actors:",
    Arithmetic().run([1, 2, 3, 4, 5], input_batch_size=2, max_active_input_batches=2).outputs,
)
made = Counter(row.class_name for row in list_actors())
documents = Documents().run(["a1 a2 a3", "b1"], input_batch_size=2, max_active_input_batches=2)
print("documents, reassembled from their pages in order:", documents.outputs)
print("one actor per replica:", dict(made))
ray.shutdown()
