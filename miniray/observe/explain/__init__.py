"""Explanations: why a task, an actor, an object or a placement group waits."""
