"""Tests of `headrace.stores.regular_files`."""

import errno
import os

from headrace.stores.regular_files import oddity
from tests.support.failing_disks import FAILED


def test_a_file_whose_type_the_disk_cannot_report_counts_as_regular(tmp_path, monkeypatch):
    """Opening it then gives the error of the disk, with the name of the file."""
    (tmp_path / "dead").symlink_to("nowhere")
    assert "(to nowhere)" in oddity(tmp_path / "dead")

    def failing(*args, **more):
        raise OSError(errno.EIO, FAILED)

    for name in ("stat", "lstat", "readlink"):
        monkeypatch.setattr(os, name, failing)
    assert oddity(tmp_path / "a.idx") is None
