"""Simulated programs: one run on a seed (`simulation`), many runs (`exploration`), and what explains a failed run."""
