"""Ray's older path to the functions of `miniray.util.state`."""

from ...util.state import *  # noqa: F403
