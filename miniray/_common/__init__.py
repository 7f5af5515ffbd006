"""The names of `ray._common` that programs use although Ray does not guarantee them: helpers for tests."""
