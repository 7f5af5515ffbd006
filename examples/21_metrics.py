"""Metrics: count and time what a program does, in tasks and in the driver, and read the numbers on the spot.

A counter goes up, a gauge goes up and down, a histogram sorts observations into buckets and can compute quantiles. Tags
distinguish the series of one metric. `.timer()` observes how many milliseconds a block takes.

Only on miniray: reading a metric in the process, and `.timer()`. Ray sends its metrics to Prometheus.

Prints:

    orders from paris: 2, from rome: 1
    open orders: 3
    sizes: 3 observed, their sum is 16, the median is 5
    timed blocks: 2, and their total time is positive: True
    for Prometheus: ray_orders_total{city="rome"} 1.0
"""

import re

import miniray as ray
from miniray.util.metrics import Counter, Gauge, Histogram, export_text

orders = Counter("orders", description="orders taken", tag_keys=("city",))
opened = Gauge("open_orders")
sizes = Histogram("order_size", boundaries=[2, 4, 6, 8, 10])
latency = Histogram("order_ms", boundaries=[1, 10, 100, 1000])

ray.init(num_cpus=1)

for city, size in ("paris", 1), ("paris", 5), ("rome", 10):
    orders.inc(tags={"city": city})
    sizes.observe(size)
opened.set(3)
print(f"orders from paris: {orders.value({'city': 'paris'}):.0f}, from rome: {orders.value({'city': 'rome'}):.0f}")
print(f"open orders: {opened.value():.0f}")
observed = sizes.value()
print(
    f"sizes: {observed['count']:.0f} observed, their sum is {observed['sum']:.0f}, "
    f"the median is {sizes.quantile(0.5):.0f}"
)

for _ in range(2):
    with latency.timer():
        sorted(range(1000))
timed = latency.value()
print(f"timed blocks: {timed['count']:.0f}, and their total time is positive: {timed['sum'] > 0}")

page = export_text()
line = re.search(r'^ray_orders_total\{.*city="rome".*\} (\S+)$', page, re.M)
print(f'for Prometheus: ray_orders_total{{city="rome"}} {line.group(1)}')

ray.shutdown()
