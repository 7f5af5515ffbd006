"""Row classes and options of the state API, under their path before Ray 2.3."""

from miniray.util.state.common import *  # noqa: F403
