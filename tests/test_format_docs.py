"""What docs/format.md says is so."""

import re
from pathlib import Path

import numpy as np
import pytest

from headrace.catalog_summary import SUMMARY_PATH, CatalogSummary
from headrace.index import ShardIndex
from headrace.snapshots import ShardTable, read_snapshot
from headrace.storage import LocalStorage
from tests.builds import Project
from tests.streaming.corpus import clips, write_dataset

DOCUMENT = Path("docs/format.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(7), "test": clips(2, first=50)}, latents=True)
    return folder


@pytest.fixture(scope="module")
def read():
    """The reader in the document."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    scope = {}
    exec(code, scope)
    return scope["read"]


@pytest.mark.parametrize("folder", ["audio", "latents/crepe"])
def test_the_reader_in_the_document_reads_indexes_and_tables(output, read, folder):
    for path in [*(output / folder).glob("*.idx"), *(output / folder / "snapshots").glob("*.shards")]:
        arrays, notes = read(path)
        kind = ShardIndex if path.suffix == ".idx" else ShardTable
        ours = kind.from_bytes(path.read_bytes(), path.name)
        for name, array in arrays.items():
            assert np.array_equal(array, getattr(ours, name))
            assert f"`{name}`" in DOCUMENT
        for name in notes:
            assert name.startswith("note:") or f"`{name}`" in DOCUMENT


def test_the_reader_in_the_document_reads_the_summary_of_a_catalog(tmp_path, read):
    project = Project(tmp_path)
    project.put("a.wav")
    project.build()
    arrays, notes = read(tmp_path / "output" / SUMMARY_PATH)
    summary = CatalogSummary.from_bytes((tmp_path / "output" / SUMMARY_PATH).read_bytes(), SUMMARY_PATH)
    assert arrays["path_digests"].tobytes() == summary.stamps.paths.tobytes()
    assert notes["catalog"] == summary.digest
    assert all(f"`{name}`" in DOCUMENT for name in (*arrays, *notes))


def test_every_field_of_manifests_and_snapshots_is_described(output):
    audio = LocalStorage(output / "audio")
    fields = set()
    for path in [*(output / "audio/manifests").rglob("*.json"), *(output / "audio/snapshots").glob("*.json")]:
        fields |= set(re.findall(r'^ {1,3}"([a-z_]+)":', path.read_text(), re.MULTILINE))
    fields -= set(read_snapshot(audio).snapshot.splits)
    assert not {field for field in fields if f"`{field}`" not in DOCUMENT}


def test_a_row_of_the_table_takes_as_many_bytes_as_it_says(output):
    table = ShardTable.from_bytes(next((output / "audio/snapshots").glob("*.shards")).read_bytes(), "x")
    columns = ("split", "bucket", "sequence", "digest", "num_samples", "num_bytes", "num_frames")
    num_bytes = sum(getattr(table, name).nbytes for name in columns) // len(table)
    assert f"{num_bytes} bytes a row" in DOCUMENT
