"""Names of `ray._common` that programs use, although Ray does not promise them: helpers for tests of Ray programs."""
