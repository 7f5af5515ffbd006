"""The older home of `miniray._common.test_utils`. Ray: ray._private.test_utils."""

from miniray._common.test_utils import Semaphore, SignalActor, async_wait_for_condition, wait_for_condition

__all__ = ["Semaphore", "SignalActor", "async_wait_for_condition", "wait_for_condition"]
