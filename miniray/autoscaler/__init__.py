"""Ray starts and stops machines by what is asked for. Here the nodes are those that the program made; see `sdk`."""
