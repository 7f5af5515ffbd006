"""A lone surrogate in a name, an option or a printed line, and where it is refused."""

INIT = dict(num_cpus=4, resources={"r": 2})
LONE = "lone \udc80"


def run(ctx):
    ray = ctx.ray
    util = ctx.sub("util")

    @ray.remote
    def task(value=None):
        return ascii(value)

    @ray.remote(num_cpus=0)
    class Actor:
        def method(self, value=None):
            return ascii(value)

    def outcome(call):
        try:
            return ascii(call())
        except Exception as error:
            return type(error).__name__

    actor = Actor.remote()
    for name, call in {
        "task name, options": lambda: task.options(name=LONE) and None,
        "task name": lambda: ray.get(task.options(name=LONE).remote()),
        "task name, wrong argument": lambda: task.options(name=LONE).remote(1, 2),
        "decorator": lambda: ray.get(ray.remote(name=LONE)(lambda: 1).remote()),
        "actor name, options": lambda: Actor.options(name=LONE) and None,
        "actor name": lambda: Actor.options(name=LONE).remote() and None,
        "namespace": lambda: Actor.options(name="n1", namespace=LONE).remote() and None,
        "namespace only": lambda: Actor.options(namespace=LONE).remote() and None,
        "get_if_exists": lambda: Actor.options(name=LONE, get_if_exists=True).remote() and None,
        "method name": lambda: ray.get(actor.method.options(name=LONE).remote()),
        "get_actor": lambda: ray.get_actor(LONE),
        "get_actor namespace": lambda: ray.get_actor("n", namespace=LONE),
        "concurrency group": lambda: ray.get(actor.method.options(concurrency_group=LONE).remote()),
        "resource": lambda: ray.get(task.options(resources={LONE: 0.5}).remote(), timeout=1),
        "actor resource": lambda: Actor.options(resources={LONE: 0.5}).remote() and None,
        "pg name": lambda: util.placement_group([{"CPU": 1}], name=LONE) and None,
        "pg resource": lambda: util.placement_group([{LONE: 1}]) and None,
        "get_placement_group": lambda: util.get_placement_group(LONE),
        "label": lambda: ray.get(task.options(label_selector={"k": LONE}).remote(), timeout=1),
        "argument": lambda: ray.get(task.remote(LONE)),
        "keyword": lambda: ray.get(task.remote(**{LONE: 1})),
        "put": lambda: ray.get(ray.put(LONE)),
    }.items():
        ctx.show(name, outcome(call))

    @ray.remote(max_retries=0)
    def prints(to):
        import sys

        stream = getattr(sys, to)
        try:
            print("a\udc80b", file=stream, flush=True)
        except UnicodeEncodeError as error:
            return type(error).__name__, error.reason
        return "printed"

    ctx.show(ray.get([prints.remote("stdout"), prints.remote("stderr")]))
