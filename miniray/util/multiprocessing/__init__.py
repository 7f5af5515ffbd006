"""The names of Python's multiprocessing that have a counterpart over actors. Ray: python/ray/util/multiprocessing."""

from multiprocessing import JoinableQueue, TimeoutError

from .pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]
