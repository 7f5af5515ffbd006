"""The state API under its path before Ray 2.3. See `miniray.util.state`."""
