"""The simulated runtime: one thread runs at a time, a seed decides which, and the clock is virtual."""
