"""`multiprocessing.Pool` on actors. Ray: python/ray/util/multiprocessing."""

from multiprocessing import JoinableQueue, TimeoutError

from .pool import Pool

__all__ = ["JoinableQueue", "Pool", "TimeoutError"]
