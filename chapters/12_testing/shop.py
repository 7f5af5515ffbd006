"""A Ray program as its authors wrote it. It knows nothing of miniray."""
import ray


@ray.remote
class Stock:
    """Keeps count of the goods in stock."""

    def __init__(self, amounts):
        self.amounts = dict(amounts)

    def take(self, name, count):
        """Take some out and return how many are left. Raises ValueError if there are not enough."""
        if self.amounts.get(name, 0) < count:
            raise ValueError(f"only {self.amounts.get(name, 0)} of {name}")
        self.amounts[name] -= count
        return self.amounts[name]


def price_of(name):
    """Look up what a single item costs."""
    return len(name)


@ray.remote(max_retries=2)
def price(name):
    """The price of a single item."""
    return price_of(name)


def order(stock, name, count):
    """Take the items out of stock and return the price of the order."""
    ray.get(stock.take.remote(name, count))
    return count * ray.get(price.remote(name))
