"""A list of tars is compared with its digest, and one that was fetched does not lead to local files."""

import hashlib

import pytest

from headrace.errors import FormatError
from headrace.format.snapshots.snapshots import Snapshot
from headrace.format.snapshots.tar_lists import TARS, TarList, read_tar_list
from headrace.format.tars.member_names import KeyAt
from headrace.stores.storage import LocalStorage, open_storage

LIST = TarList("/data", KeyAt.FIRST_DOT, {"train": ("a.tar", "", "b.tar")})


def snapshot(blob):
    return Snapshot("", {}, {}, (), 1, "", {TARS: hashlib.sha256(blob).hexdigest()})


def test_a_list_is_read_as_it_was_written_and_a_damaged_one_is_an_error(tmp_path):
    blob, storage = LIST.to_json(), LocalStorage(tmp_path)
    path = f"snapshots/{hashlib.sha256(blob).hexdigest()[:12]}.tars"
    storage.write(path, blob)
    assert read_tar_list(storage, snapshot(blob)) == LIST
    assert LIST.places() == {"a.tar": ("train", 0), "b.tar": ("train", 2)}
    storage.write(path, blob.replace(b"a.tar", b"x.tar"))
    with pytest.raises(FormatError, match="does not have the digest"):
        read_tar_list(storage, snapshot(blob))
    with pytest.raises(FormatError, match="a damaged headrace tars"):
        TarList.from_json(blob.replace(b"first_dot", b"other_dot"), "x.tars")


def test_only_a_local_list_may_name_local_tars(tmp_path):
    assert LIST.storage(LocalStorage(tmp_path / "tars")).uri == "/data"
    with pytest.raises(FormatError, match="not in a store"):
        LIST.storage(open_storage("s3://bucket/set/tars"))
