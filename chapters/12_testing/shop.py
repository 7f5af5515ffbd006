"""A program for Ray, as its authors wrote it: it knows nothing of miniray."""
import ray


@ray.remote
class Stock:
    """How many of each thing there are."""

    def __init__(self, amounts):
        self.amounts = dict(amounts)

    def take(self, name, count):
        """Take some out; ValueError when there are not enough. Returns how many are left."""
        if self.amounts.get(name, 0) < count:
            raise ValueError(f"only {self.amounts.get(name, 0)} of {name}")
        self.amounts[name] -= count
        return self.amounts[name]


@ray.remote(max_retries=2)
def price(name):
    """What one costs."""
    return len(name)


def order(stock, name, count):
    """The price of an order, when it can be met."""
    ray.get(stock.take.remote(name, count))
    return count * ray.get(price.remote(name))
