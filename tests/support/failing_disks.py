"""Shared by test_failing_disks and the tests beside it."""

import errno
import os

FAILED = os.strerror(errno.EIO)
