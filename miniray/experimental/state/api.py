"""The functions of `miniray.util.state`, under their path before Ray 2.3. As in Ray, importing this module warns."""

import warnings

from miniray.util.state import *  # noqa: F403

warnings.warn(
    "ray.experimental.state is deprecated: the state API is in ray.util.state", DeprecationWarning, stacklevel=2
)
