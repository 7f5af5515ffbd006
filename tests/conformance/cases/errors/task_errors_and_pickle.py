"""Plain pickle refuses an error of two classes, since nobody can import its class. It shows only its cause's fields."""

import copy
import pickle


class Quota(Exception):
    """Has a field."""

    def __init__(self, user):
        super().__init__(user)
        self.user = user


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def fail(error):
        raise error

    @ray.remote
    class Actor:
        def fail(self):
            raise KeyError("k")

    def caught(ref):
        try:
            ray.get(ref)
        except Exception as error:
            return error

    errors = [
        caught(fail.remote(ValueError("v"))),
        caught(fail.remote(Quota("ann"))),
        caught(fail.remote(ray.exceptions.GetTimeoutError("late"))),
        caught(Actor.remote().fail.remote()),
        caught(fail.remote(fail.remote(OSError(2, "no")))),
        caught(fail.remote(Exception("plain"))),
    ]
    for error in errors:
        ctx.show(type(error).__name__, len(error.args))
        for protocol in 2, 5:
            try:
                ctx.show(type(pickle.loads(pickle.dumps(error, protocol))).__name__)
            except pickle.PicklingError:
                ctx.show("PicklingError")
        if type(error.cause) is not Quota:  # which nobody can import either
            ctx.show(type(pickle.loads(pickle.dumps(error.cause))).__name__)
        ctx.show(type(copy.copy(error)).__name__, type(copy.deepcopy(error)).__name__)
        ctx.show(type(ctx.sub("cloudpickle").loads(ctx.sub("cloudpickle").dumps(error))).__name__)
        ctx.show(type(ray.get(ray.put([error]))[0]).__name__)
        ctx.show([name for name in ("function_name", "pid", "traceback_str", "user") if hasattr(error, name)])
