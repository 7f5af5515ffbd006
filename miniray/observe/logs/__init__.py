"""The output of tasks and actors: captured, stored, folded and read."""
