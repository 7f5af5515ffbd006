"""A parameter server: one actor holds the weights, and workers compute gradients on their own shares of the data.

In each round every worker gets the current weights, and the server applies the mean of the gradients. The model is a
line, y = 3 x - 1, so plain Python is enough. Each worker generates its data from its own seed; the data never travel.

Prints:

    round   0: loss 3.8614
    round  20: loss 0.0035
    round  40: loss 0.0032
    round  60: loss 0.0032
    learned y = 3.00 x + -1.00
"""

import random

import ray

WORKERS, ROUNDS, RATE = 4, 61, 0.3


@ray.remote
class ParameterServer:
    def __init__(self):
        self.weights = [0.0, 0.0]

    def get_weights(self):
        return self.weights

    def apply(self, *gradients):
        for i in range(2):
            self.weights[i] -= RATE * sum(g[i] for g in gradients) / len(gradients)
        return self.weights


@ray.remote
class Worker:
    def __init__(self, seed):
        rng = random.Random(seed)
        self.data = []
        for _ in range(50):
            x = rng.uniform(-1, 1)
            self.data.append((x, 3 * x - 1 + rng.gauss(0, 0.05)))

    def gradient(self, weights):
        slope, offset = weights
        errors = [(slope * x + offset - y, x) for x, y in self.data]
        return [2 * sum(e * x for e, x in errors) / len(errors), 2 * sum(e for e, _ in errors) / len(errors)]

    def loss(self, weights):
        slope, offset = weights
        return sum((slope * x + offset - y) ** 2 for x, y in self.data) / len(self.data)


ray.init(num_cpus=2)

server = ParameterServer.options(num_cpus=0).remote()
workers = [Worker.options(num_cpus=0.25).remote(seed) for seed in range(WORKERS)]

weights = server.get_weights.remote()
for n in range(ROUNDS):
    if n % 20 == 0:
        losses = ray.get([worker.loss.remote(weights) for worker in workers])
        print(f"round {n:3}: loss {sum(losses) / WORKERS:.4f}")
    gradients = [worker.gradient.remote(weights) for worker in workers]
    weights = server.apply.remote(*gradients)

slope, offset = ray.get(weights)
print(f"learned y = {slope:.2f} x + {offset:.2f}")

ray.shutdown()
