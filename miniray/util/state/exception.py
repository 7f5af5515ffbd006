"""The errors of the state API. Ray: ray.util.state.exception."""

from ...observe.state.query import DataSourceUnavailable, RayStateApiException, ServerUnavailable

__all__ = ["DataSourceUnavailable", "RayStateApiException", "ServerUnavailable"]
