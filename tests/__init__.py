"""The tests. A package, so that what several of them share is found as `tests.…` whatever else is installed."""
