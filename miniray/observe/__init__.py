"""What observes: state, explanations, metrics, logs and the timeline, all of them readings of the core's records."""
