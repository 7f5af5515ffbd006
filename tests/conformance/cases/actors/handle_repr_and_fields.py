"""A handle is shown by the full name of its class; the actor class has a name of its own; fields set on a handle stay there."""


class Outer:
    class Inner:
        def name(self):
            return type(self).__name__


def run(ctx):
    ray = ctx.ray
    Remote = ray.remote(Outer.Inner)
    handle = Remote.options(name="inner").remote()
    ctx.show(repr(handle).split(", ")[0], len(repr(handle).split(", ")[1]), str(handle) == repr(handle))
    ctx.show(type(Remote).__name__, type(handle).__name__, ray.get(handle.name.remote()))
    handle.label = "mine"
    ctx.show(handle.label, hasattr(ray.get_actor("inner"), "label"), handle == ray.get_actor("inner"))

    @ray.remote
    def label_of(actor):
        return getattr(actor, "label", "none")

    ctx.show(ray.get(label_of.remote(handle)))
