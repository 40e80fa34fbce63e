"""Files of columns are published whole, found again, and never under a name that a gc deletes."""

import json

import pytest

from headrace.errors import NotFoundError
from headrace.format.beside import column_files
from headrace.format.beside.column_files import publish_columns, published_columns, read_columns, specs_of
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.format.manifests.manifests import Manifest, NumberedManifest, ShardEntry, manifest_path
from headrace.format.shards.condemned import condemned
from headrace.format.shards.writer import ShardPlace
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage
from tests.support.column_table import CAPTIONS


def test_published_columns_are_found_and_damage_is_not(tmp_path):
    storage = LocalStorage(tmp_path)
    name, size = publish_columns(storage, ShardPlace("train", 3, 12), CAPTIONS)
    assert name.startswith("train_0003_000012-")
    assert read_columns(storage, name).to_bytes() == CAPTIONS.to_bytes()
    assert published_columns(storage, name, size).input_digest == "made from"
    assert published_columns(storage, name, size - 1) is None
    storage.write(name, CAPTIONS.to_bytes()[:-1] + b"?")
    assert published_columns(storage, name, size) is None
    assert published_columns(storage, "train_0003_000013-000000000000.columns", size) is None
    publish_columns(storage, ShardPlace("train", 3, 12), CAPTIONS)
    assert published_columns(storage, name, size) is not None


def test_a_name_that_a_gc_deletes_is_not_used(tmp_path):
    storage = LocalStorage(tmp_path)
    name, _ = publish_columns(storage, ShardPlace("train", 0, 0), CAPTIONS)
    with condemned(storage, [name]):
        other, size = publish_columns(storage, ShardPlace("train", 0, 0), CAPTIONS)
    assert other != name
    assert published_columns(storage, other, size).specs == CAPTIONS.specs


def test_a_snapshot_names_files_of_columns(tmp_path):
    storage = LocalStorage(tmp_path)
    names = []
    entries = []
    for sequence in (0, 1):
        name, size = publish_columns(storage, ShardPlace("train", 0, sequence), CAPTIONS)
        names.append(name)
        entries.append(ShardEntry(name, size, 3, 0, 1.5, "digest", 3))
    manifest = Manifest("train-0000", "wanted", "source", {}, tuple(entries))
    storage.create(manifest_path("train-0000", 1), manifest.to_json())
    origin = {column_files.SPECS_KEY: [{"name": "snr", "kind": "float", "is_fact": False}]}
    commit_snapshot(storage, {"train-0000": NumberedManifest(1, manifest)}, "catalog", origin)
    snapshot = read_snapshot(storage).snapshot
    assert read_table(storage, snapshot).names() == names
    assert specs_of(snapshot) == (ColumnSpec("snr", ColumnKind.FLOAT),)
    assert json.loads(storage.read("sizes.json")) == dict.fromkeys(names, 3)
    storage.delete(names[0])
    with pytest.raises(NotFoundError):
        read_columns(storage, names[0])
