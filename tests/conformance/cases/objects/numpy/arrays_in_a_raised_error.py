"""An array in an error that a task raised can be written to by who catches it, unless it was read-only there."""

import numpy as np


class Carries(Exception):
    """Has a value."""


def run(ctx):
    ray = ctx.ray

    @ray.remote
    def fail(length, value=None):
        raise Carries(np.arange(length) if value is None else value)

    @ray.remote
    class Actor:
        def __init__(self):
            self.kept = np.arange(3)

        def fail(self):
            raise Carries(self.kept)

    def look(ref):
        try:
            ray.get(ref)
        except Carries as error:
            array = error.cause.args[0]
            ctx.show(array.flags.writeable, array[0])
            if array.flags.writeable:
                array[0] = 7

    for length in 3, 100_000:
        ref = fail.remote(length)
        look(ref)
        look(ref)
        look(fail.remote(length, np.arange(length)))
        look(fail.remote(length, ray.put(np.arange(length))))
    look(Actor.remote().fail.remote())
    look(fail.remote(fail.remote(3)))
