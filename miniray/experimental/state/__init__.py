"""Ray's older path to `miniray.util.state`."""
