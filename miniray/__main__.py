"""`python -m miniray`: the command line. The commands are the modules of miniray.cli."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
