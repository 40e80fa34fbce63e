"""`python -m headrace.cli` where the script is not on the path."""

import sys

from headrace.cli import main

sys.exit(main())
