"""One actor adds up the roots of forty readings. At the end many of the readings are missing."""
import os

import miniray as ray
from miniray.exceptions import RayActorError

READINGS = [(7 * n) % 23 for n in range(11)] + [-1] + [(5 * n) % 19 for n in range(28)]


def native_root(value):
    """A function of a C library, which has only one answer to a bad argument."""
    if value < 0:
        os.abort()
    return value ** 0.5


@ray.remote
class Sum:
    """The sum of the roots of the readings."""

    def __init__(self):
        self.total = 0.0

    def add(self, reading):
        """Add the root of one reading."""
        print("reading", reading)
        self.total += native_root(reading)


ray.init(num_cpus=2, log_to_driver=False)
keeper = Sum.remote()
kept = 0
for ref in [keeper.add.remote(reading) for reading in READINGS]:
    try:
        ray.get(ref)
        kept += 1
    except RayActorError:
        pass
print(f"kept {kept} of {len(READINGS)}")
