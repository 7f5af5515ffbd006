"""A program's own subclasses of RayError and RayTaskError: raised, returned, put, and with other arguments."""


def run(ctx):
    ray, errors = ctx.ray, ctx.ray.exceptions

    class Plain(errors.RayError):
        pass

    class TaskError(errors.RayTaskError):
        pass

    class Odd(errors.RayTaskError):
        def __init__(self, value):
            super().__init__("f", "KeyError: 1", ValueError(value))

    class OddPlain(errors.RayError):
        def __init__(self, a, b):
            super().__init__(f"{a} and {b}")

    made = [
        lambda: Plain("x"),
        lambda: TaskError("f", "ValueError: v", ValueError("v")),
        lambda: Odd("v"),
        lambda: OddPlain(1, 2),
        lambda: errors.RayTaskError("f", "KeyError: v", KeyError("v")).as_instanceof_cause(),
        lambda: errors.WorkerCrashedError(),
    ]

    @ray.remote
    def raises(make):
        raise make()

    @ray.remote
    def returns(make):
        return make()

    def show(how, number, value):
        try:
            ctx.show(how, number, "gives", type(value()).__name__)
        except Exception as error:
            bases = [cls.__name__ for cls in type(error).__mro__]
            cause = getattr(error, "cause", None)
            ctx.show(how, number, "raises", bases[: bases.index("Exception")], type(cause).__name__, len(error.args))

    for number, make in enumerate(made):
        show("raise", number, lambda: ray.get(raises.remote(make)))
        show("return", number, lambda: ray.get(returns.remote(make)))
        show("put", number, lambda: ray.get(ray.put(make())))
