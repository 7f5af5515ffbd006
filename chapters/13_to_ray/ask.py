"""A Ray program. It says `import ray`, and knows nothing of miniray."""
import sys

import ray


@ray.remote
def double(n):
    return 2 * n


ray.init(num_cpus=2)
print(sum(ray.get([double.remote(n) for n in range(int(sys.argv[1]))])))
ray.shutdown()
