"""Paths and ranges that every store checks."""

import pytest

from headrace.errors import StorageError, UnsafePathError
from headrace.stores.contents import checked_path, exactly


@pytest.mark.parametrize("path", ["", "/", "/etc/passwd", "..", "a/../b", "./a", "a//b", "a/", "a\\b", "a\0b"])
def test_a_path_that_may_leave_the_root_is_an_error_that_shows_it(path):
    with pytest.raises(UnsafePathError, match="use a relative path"):
        checked_path(path)


@pytest.mark.parametrize("path", ["a.tar", "audio/a.tar", "..a", "a..", "a b/ü"])
def test_a_path_below_the_root_is_taken_as_it_is(path):
    assert checked_path(path) == path


def test_a_range_that_comes_shorter_or_longer_is_an_error_that_names_the_object():
    assert exactly(b"abc", 5, 8, "a.tar") == b"abc"
    for blob in (b"ab", b"abcd"):
        with pytest.raises(StorageError, match=rf"a\.tar: bytes 5\.\.8 requested, {len(blob)} received"):
            exactly(blob, 5, 8, "a.tar")
