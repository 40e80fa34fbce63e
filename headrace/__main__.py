"""`python -m headrace`, the command `headrace` where the script is not on the path."""

import sys

from headrace.cli import main

if __name__ == "__main__":
    sys.exit(main())
