"""`python -m miniray`: the command line. Each command is a module of `miniray.cli`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
