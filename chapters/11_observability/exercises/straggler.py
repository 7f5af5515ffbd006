"""Orders are counted by customer, in eight parts. The whole run takes five times as long as one part should."""
import time

import miniray as ray

ORDERS = [f"customer-{n % 97}" for n in range(2_000)] + ["customer-0"] * 3_000
PARTS = 8


@ray.remote
def count(part, orders):
    """How many orders each customer has. Each order takes a tenth of a millisecond."""
    print(f"part {part}: {len(orders)} orders of {len(set(orders))} customers")
    time.sleep(len(orders) * 0.0001)
    return {customer: orders.count(customer) for customer in set(orders)}


ray.init(num_cpus=4, log_to_driver=False)
parts = [[] for _ in range(PARTS)]
for order in ORDERS:
    parts[int(order.split("-")[1]) % PARTS].append(order)
counts = ray.get([count.remote(number, part) for number, part in enumerate(parts)])
print("customers", sum(len(one) for one in counts))
