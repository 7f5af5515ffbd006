"""A handle from get_actor, or to the current actor, is weak, and so are its copies: none of them keeps the actor alive."""


def run(ctx):
    import copy
    import time

    ray = ctx.ray

    @ray.remote(num_cpus=0)
    class Box:
        def ping(self):
            return "pong"

        def keep(self, handles):
            self.kept = handles[0]

        def find(self, name):
            self.kept = ray.get_actor(name)

        def use(self):
            return ray.get(self.kept.ping.remote())

        def me(self):
            return ray.get_runtime_context().current_actor

        def keep_me(self):
            self.kept = ray.get_runtime_context().current_actor

    @ray.remote(num_cpus=0)
    def back(handles):
        return handles[0]

    keeper = Box.remote()

    def alive(name):
        try:
            ray.get_actor(name)
        except ValueError:
            return False
        return True

    def named(name):
        box = Box.options(name=name).remote()
        ray.get(box.ping.remote())
        return box

    def ends(name):
        deadline = time.monotonic() + 20
        while alive(name) and time.monotonic() < deadline:
            time.sleep(0.05)
        return not alive(name)

    box = named("plain")
    weak = ray.get_actor("plain")
    ctx.show(weak == box, hash(weak) == hash(box), ray.get(weak.ping.remote()))
    del box
    ctx.show(ends("plain"), "plain" in ray.util.list_named_actors())
    ctx.raises(lambda: ray.get(weak.ping.remote()), "ActorDiedError")

    box = named("copies")
    weak = ray.get_actor("copies")
    copies = [copy.copy(weak), ray.get(back.remote([weak])), ray.get(ray.put([weak]))[0]]
    method = weak.ping
    ctx.show([ray.get(one.ping.remote()) for one in copies], ray.get(method.remote()))
    del box
    ctx.show(ends("copies"))
    for one in copies:
        ctx.raises(lambda: ray.get(one.ping.remote()), "ActorDiedError")
    ctx.raises(lambda: ray.get(method.remote()), "ActorDiedError")

    box = named("kept")
    ray.get(keeper.keep.remote([ray.get_actor("kept")]))
    ctx.show(ray.get(keeper.use.remote()))
    del box
    ctx.show(ends("kept"))
    ctx.raises(lambda: ray.get(keeper.use.remote()), "ActorDiedError")

    box = named("found")
    ray.get(keeper.find.remote("found"))
    ctx.show(ray.get(keeper.use.remote()))
    del box
    ctx.show(ends("found"))

    box = named("itself")
    weak = ray.get(box.me.remote())
    ray.get(box.keep_me.remote())
    del box
    ctx.show(ends("itself"))
    ctx.raises(lambda: ray.get(weak.ping.remote()), "ActorDiedError")

    box = named("strong")
    ray.get(keeper.keep.remote([box]))
    strong = ray.get(back.remote([box]))
    del box
    time.sleep(0.5)
    ctx.show(alive("strong"), ray.get(keeper.use.remote()), ray.get(strong.ping.remote()))
    del strong
    ray.get(keeper.keep.remote([None]))
    ctx.show(ends("strong"))

    box = Box.options(name="detached", lifetime="detached").remote()
    ray.get(box.ping.remote())
    del box
    ctx.show(ray.get(ray.get_actor("detached").ping.remote()))
    ray.kill(ray.get_actor("detached"))
