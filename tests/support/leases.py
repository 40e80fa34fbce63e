"""Resources that are held until the last test of a file has ended, whichever fixture or test acquired them.

A separate `ExitStack`, so that resources that a module fixture shares with its tests are not closed too early.
"""

import contextlib

LEASES = contextlib.ExitStack()
"""Closed by `conftest.leases` after each file."""
