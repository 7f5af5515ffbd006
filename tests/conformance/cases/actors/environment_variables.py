"""An actor has the variables of its runtime environment, and those it sets, for as long as it lives; its children inherit the former."""
import asyncio
import os

INIT = dict(num_cpus=4, runtime_env={"env_vars": {"MR_A": "job"}})


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def see(*names):
        return [os.environ.get(name) for name in names]

    @ray.remote
    class Settings:
        def __init__(self):
            self.at_first = os.environ.get("MR_B")

        def see(self, *names):
            return [os.environ.get(name) for name in names]

        def set(self, name, value):
            os.environ[name] = value

        def drop(self, name):
            del os.environ[name]

        def child(self, *names):
            return ray.get(see.remote(*names))

        def child_actor(self, *names):
            return ray.get(Settings.remote().see.remote(*names))

        def told(self):
            return self.at_first, ray.get_runtime_context().runtime_env["env_vars"]

    one = Settings.options(runtime_env={"env_vars": {"MR_B": "one"}}).remote()
    plain = Settings.remote()
    ctx.show("one", *ray.get(one.see.remote("MR_A", "MR_B")))
    ctx.show("plain", *ray.get(plain.see.remote("MR_A", "MR_B")))
    ctx.show("told", *ray.get(one.told.remote()))
    ray.get(one.set.remote("MR_C", "set"))
    ray.get(one.set.remote("MR_A", "changed"))
    ctx.show("after it set two", *ray.get(one.see.remote("MR_A", "MR_B", "MR_C")))
    ctx.show("its child", *ray.get(one.child.remote("MR_A", "MR_B", "MR_C")))
    ctx.show("its child actor", *ray.get(one.child_actor.remote("MR_A", "MR_B", "MR_C")))
    ctx.show("another", *ray.get(plain.see.remote("MR_A", "MR_B", "MR_C")))
    ray.get(one.drop.remote("MR_B"))
    ctx.show("after it dropped one", *ray.get(one.see.remote("MR_A", "MR_B", "MR_C")))
    ctx.raises(lambda: ray.get(one.drop.remote("MR_B")), "KeyError")
    ctx.show("driver", *[os.environ.get(name) for name in ("MR_A", "MR_B", "MR_C")])

    @ray.remote(runtime_env={"env_vars": {"MR_B": "async"}})
    class Async:
        async def see(self):
            before = os.environ["MR_B"]
            await asyncio.sleep(0)
            return before, os.environ["MR_B"], await asyncio.to_thread(os.getenv, "MR_B")

    ctx.show("async", *ray.get(Async.remote().see.remote()))
