"""Batch inference: the model is stored once, a few actors load it once each, and batches stream through them.

The "model" is a table that gives each word a mood, which is enough to tell these good reviews from the bad ones. A
generator task makes the batches. No more than two per actor are under way, so it does not matter how many there are.

Prints:

    good: 'great phone and a lovely screen'
    bad:  'terrible battery, broken after a week'
    bad:  'slow'
    600 reviews in 60 batches: 400 good, 200 bad
    the model was loaded 2 times
"""

import ray

MODEL = {"great": 2, "lovely": 2, "fine": 1, "slow": -1, "broken": -2, "terrible": -3}
REVIEWS = ["great phone and a lovely screen", "terrible battery, broken after a week", "a fine case"]


@ray.remote
class Predictor:
    def __init__(self, model):
        self.model = dict(model)
        self.loads = 1

    def predict(self, batch):
        return [sum(self.model.get(word.strip(","), 0) for word in review.split()) > 0 for review in batch]

    def count_loads(self):
        return self.loads


@ray.remote
def read_batches(count, size):
    for n in range(count):
        yield [REVIEWS[(n * size + i) % len(REVIEWS)] for i in range(size)]


ray.init(num_cpus=3)

model = ray.put(MODEL)
predictors = [Predictor.remote(model) for _ in range(2)]

for review, is_good in zip([*REVIEWS[:2], "slow"], ray.get(predictors[0].predict.remote([*REVIEWS[:2], "slow"]))):
    print("good:" if is_good else "bad: ", repr(review))

good = bad = batches = 0
under_way = {}


def take_one():
    """Count the results of one finished batch, and return the predictor that is now free."""
    global good, bad
    [ready], _ = ray.wait(list(under_way))
    answers = ray.get(ready)
    good += sum(answers)
    bad += len(answers) - sum(answers)
    return under_way.pop(ready)


for batch in read_batches.remote(60, 10):
    predictor = predictors[batches % 2] if len(under_way) < 4 else take_one()
    under_way[predictor.predict.remote(batch)] = predictor
    batches += 1
while under_way:
    take_one()

print(f"{good + bad} reviews in {batches} batches: {good} good, {bad} bad")
print("the model was loaded", sum(ray.get([predictor.count_loads.remote() for predictor in predictors])), "times")

ray.shutdown()
