"""Four shards hold the data. Two evaluations of the data are submitted, and neither returns."""
import miniray as ray
from miniray.exceptions import GetTimeoutError


@ray.remote(num_cpus=1)
class Shard:
    """A part of the data."""

    def __init__(self, number):
        self.rows = [number * 100 + n for n in range(100)]

    def total(self):
        """The sum of the rows."""
        return sum(self.rows)


@ray.remote
def evaluate(totals):
    """Compare the totals of the shards."""
    return max(totals) - min(totals)


ray.init(num_cpus=4, log_to_driver=False)
shards = [Shard.remote(number) for number in range(4)]
totals = ray.get([shard.total.remote() for shard in shards])
print("totals", totals)
scores = [evaluate.remote(totals) for _ in range(2)]
try:
    print("scores", ray.get(scores, timeout=0.3))
except GetTimeoutError:
    print("no scores after 0.3 s")
