"""Shared by test_failing_disks and the tests beside it."""

import errno
import os

FAILED = os.strerror(errno.EIO)


def refuses_links(self, target):
    """`Path.hardlink_to` on exFAT: it fails."""
    raise PermissionError(errno.EPERM, "Operation not permitted")
