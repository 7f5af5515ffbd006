"""State: what ran, what is running, what waits; and `explain`: why it waits.

The program itself or the command line can read the tables at any time. `explain` follows what a task waits for to the
end of the chain: here a report waits for its table, and the table waits for the CPU that an actor holds.

Only on miniray: `explain` and `miniray.state` are additions. Ray's own `ray.util.state` is here too, as
`miniray.util.state`.

Prints:

    load   FINISHED
    check  FAILED
    table  PENDING_NODE_ASSIGNMENT
    report PENDING_ARGS_AVAIL
    failed: check with ValueError: this table is wrong
    task report waits for its argument from task table, which waits for 1 CPU on node 127.0.0.1, where 0
    of 1 CPU are free: actor Cache holds 1 CPU
    after the actor ended: the total is 6
"""

import textwrap

import miniray as ray
from miniray import state


@ray.remote
def load():
    return [1, 2, 3]


@ray.remote(max_retries=0)
def check(rows):
    raise ValueError("this table is wrong")


@ray.remote
def table(rows):
    return sum(rows)


@ray.remote
def report(total):
    return f"the total is {total}"


@ray.remote(num_cpus=1)
class Cache:
    pass


ray.init(num_cpus=1)

rows = load.remote()
ray.wait([check.remote(rows)])
cache = Cache.remote()  # it holds the only CPU until it ends
ray.get(cache.__ray_ready__.remote())
text = report.remote(table.remote(rows))

for row in state.list_tasks(filters=[("type", "=", "NORMAL_TASK")]):
    print(f"{row['name']:6} {row['state']}")
for row in state.list_tasks(filters=[("state", "=", "FAILED")]):
    print("failed:", row["name"], "with", row["error_message"].splitlines()[-1])
print(textwrap.fill(str(state.explain(text)), 100))

ray.kill(cache)
print("after the actor ended:", ray.get(text))

ray.shutdown()
