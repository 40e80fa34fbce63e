"""Default folder of the cache: one that no other user can have prepared."""

import os
import stat
import tempfile

import pytest

from headrace.errors import ConfigError
from headrace.streaming.cache.cache import ShardCache
from headrace.streaming.opened.reading import default_cache_folder


@pytest.fixture(autouse=True)
def temporary(tmp_path, monkeypatch):
    """A temporary folder of the test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def rights(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("before", [None, 0o700, 0o755, 0o777])
def test_it_is_of_this_user_alone(temporary, before):
    if before is not None:
        default_cache_folder().chmod(before)
    folder = default_cache_folder()
    assert folder.parent == temporary
    assert rights(folder) == 0o700
    assert default_cache_folder() == folder


def test_one_that_another_user_has_is_rejected_with_a_remedy(monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: os.geteuid() + 1)
    with pytest.raises(ConfigError, match=r"belongs to another user .* pass local="):
        default_cache_folder()


def test_a_link_that_another_user_has_is_rejected_even_if_it_leads_to_a_folder_of_ours(temporary, monkeypatch):
    folder = default_cache_folder()
    folder.rmdir()
    (temporary / "ours").mkdir()
    folder.symlink_to(temporary / "ours")
    linked = folder.lstat()
    theirs = os.stat_result((*linked[:4], linked.st_uid + 1, *linked[5:]))
    monkeypatch.setattr(type(folder), "lstat", lambda _: theirs)
    with pytest.raises(ConfigError, match="belongs to another user"):
        default_cache_folder()


def test_a_temporary_folder_that_cannot_be_written_is_no_error_yet(temporary, monkeypatch):
    """Who reads local shards needs no cache."""
    monkeypatch.setattr(tempfile, "tempdir", str(temporary / "gone"))
    assert default_cache_folder().parent == temporary / "gone"


def test_folders_that_users_name_keep_their_rights(temporary):
    shared = temporary / "shared"
    shared.mkdir()
    shared.chmod(0o777)
    with ShardCache(shared).receive("a.tar", 2) as incoming:
        incoming.write(b"hi")
    assert rights(shared) == 0o777
