"""A simulation of forty steps, each of which needs the state left by the step before. It gets slower and slower."""
import miniray as ray

ray.init(num_cpus=2, object_store_memory=24_000_000, log_to_driver=False)


@ray.remote
def step(state, number):
    """The next state: a million bytes."""
    return bytes([number]) + state[1:]


states = [ray.put(bytes(1_000_000))]
for number in range(40):
    states.append(step.remote(states[-1], number))
    last = ray.get(states[-1])
print("last state begins with", last[0])
