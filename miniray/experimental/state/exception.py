"""The errors of the state API, under their path before Ray 2.3."""

from miniray.util.state.exception import *  # noqa: F403
