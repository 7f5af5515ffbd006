"""A call that blocks the loop of its concurrency group does not hold up the other groups of an async actor."""


def run(ctx):
    import threading

    ray = ctx.ray

    @ray.remote(concurrency_groups={"io": 1, "other": 1})
    class Server:
        def __init__(self):
            self.go_on = threading.Event()

        async def block(self):
            return self.go_on.wait(20)

        @ray.method(concurrency_group="other")
        def block_other(self):
            return self.go_on.wait(20)

        @ray.method(concurrency_group="io")
        def alive(self):
            return "alive"

        @ray.method(concurrency_group="io")
        async def release(self):
            self.go_on.set()

        async def after(self):
            return "after"

    server = Server.remote()
    blocked = [server.block.remote(), server.block_other.remote()]
    later = server.after.remote()
    ctx.show(ray.get(server.alive.remote()))
    ctx.show(len(ray.wait([*blocked, later], num_returns=1, timeout=0.3)[0]))
    ray.get(server.release.remote())
    ctx.show(ray.get(blocked), ray.get(later))
