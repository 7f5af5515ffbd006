"""What `init` returns can be sent: a task may call it again, and give its result back."""


def run(ctx):
    ray = ctx.ray

    def again():
        return ray.init(ignore_reinit_error=True)

    @ray.remote
    def in_task():
        return again()

    @ray.remote
    class Actor:
        def again(self):
            return again()

    here = again()
    for found in ray.get(in_task.remote()), ray.get(Actor.remote().again.remote()), ray.get(ray.put(here)):
        ctx.show(type(found).__name__, found.address_info["node_id"] == here.address_info["node_id"])
        ctx.show(found["gcs_address"] == here["gcs_address"], found.python_version == here.python_version)
        ctx.show(sorted(found.address_info) == sorted(here.address_info))
