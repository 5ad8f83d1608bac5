"""`python -m sublevel`."""

import sys

from sublevel.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
