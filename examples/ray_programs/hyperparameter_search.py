"""A search loop for hyper-parameters: trials train step by step, and the worse half is stopped after each round.

Every trial is an actor that keeps its model between rounds. The driver compares the losses and lets the better half
train twice as long in the next round (successive halving). Nothing is random, so every run finds the same winner.

Prints:

    round 1: 8 trials, 1 step each, best loss 0.3600
    round 2: 4 trials, 2 steps each, best loss 0.0013
    round 3: 2 trials, 4 steps each, best loss 0.0002
    round 4: 1 trial, 8 steps each, best loss 0.0000
    winner: rate 0.2, momentum 0.3
"""

import ray


@ray.remote(num_cpus=0.25)
class Trial:
    """Minimizes (x - 1)^2 by gradient descent."""

    def __init__(self, rate, momentum):
        self.rate, self.momentum, self.x, self.speed = rate, momentum, 0.0, 0.0

    def train(self, steps):
        for _ in range(steps):
            self.speed = self.momentum * self.speed - self.rate * 2 * (self.x - 1)
            self.x += self.speed
        return (self.x - 1) ** 2


ray.init(num_cpus=2)

configurations = [(rate, momentum) for rate in (0.001, 0.05, 0.2, 1.1) for momentum in (0.0, 0.3)]
trials = {configuration: Trial.remote(*configuration) for configuration in configurations}

steps = round_number = 1
while True:
    refs = {trials[c].train.remote(steps): c for c in trials}
    losses, pending = {}, list(refs)
    while pending:
        [ready], pending = ray.wait(pending)
        losses[refs[ready]] = ray.get(ready)
    ranking = sorted(losses, key=lambda c: (losses[c], c))
    best = ranking[0]
    print(
        f"round {round_number}: {len(trials)} trial{'s' * (len(trials) > 1)}, {steps} step{'s' * (steps > 1)} each, "
        f"best loss {losses[best]:.4f}"
    )
    if len(trials) == 1:
        break
    for loser in ranking[len(ranking) // 2 :]:
        ray.kill(trials.pop(loser))
    steps, round_number = steps * 2, round_number + 1

print(f"winner: rate {best[0]}, momentum {best[1]}")

ray.shutdown()
