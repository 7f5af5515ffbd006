"""The functions of `miniray.util.state`, under the path of the module that has them in Ray. Ray: ray.util.state.api."""

from . import *  # noqa: F403
