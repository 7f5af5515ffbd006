"""What a call may be given: every check of an option, and what follows from it. Pure functions."""
