"""docs/format.md is correct."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from headrace.catalog.stored.header import HEADER_PATH, read_header, read_stamps
from headrace.catalog.stored.header_lines import PARTS_FOLDER
from headrace.format.indexes.index_files import parse_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import LocalStorage
from tests.support.builds import Project
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view

DOCUMENT = Path("docs/format.md").read_text()


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(7), "test": clips(2, first=50)}, latents=True)
    return folder


@pytest.fixture(scope="module")
def read():
    """The reader code of the document."""
    (code,) = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)
    scope = {}
    exec(code, scope)
    return scope["read"]


@pytest.mark.parametrize("folder", ["audio", "latents/crepe"])
def test_the_documented_reader_reads_indexes_and_tables(output, read, folder):
    for path in [*(output / folder).glob("*.idx"), *(output / folder / "snapshots").glob("*.shards")]:
        arrays, notes = read(path)
        parse = parse_index if path.suffix == ".idx" else ShardTable.from_bytes
        ours = parse(path.read_bytes(), path.name)
        for name, array in arrays.items():
            assert np.array_equal(array, getattr(ours, name))
            assert f"`{name}`" in DOCUMENT
        for name in notes:
            assert name.startswith("note:") or f"`{name}`" in DOCUMENT


def test_the_documented_reader_reads_the_files_of_views(tmp_path, read):
    write_dataset(tmp_path, {"train": clips(7)})
    view = write_view(tmp_path, "some", lambda key: int(key < "clip00003")).snapshot
    for file in view.files:
        arrays, notes = read(tmp_path / "views/some" / file.path)
        assert all(f"`{name}`" in DOCUMENT for name in (*arrays, *notes))
    content = json.loads((tmp_path / "views/some/snapshots/00000001.json").read_text())
    assert all(f"`{name}`" in DOCUMENT for name in content)
    file = view.counts["train-0000"]
    counts = (tmp_path / "views/some" / file.path).read_bytes()[-7:]
    assert list(counts) == [1, 1, 1, 0, 0, 0, 0]  # the last bytes of the file


def test_the_documented_reader_reads_the_stamps_of_a_catalog(tmp_path, read):
    project = Project(tmp_path)
    project.put("a.wav")
    project.build()
    (path,) = (tmp_path / "output" / PARTS_FOLDER).glob("stamps-*")
    arrays, notes = read(path)
    stamps = read_stamps(project.output, read_header(project.output))
    assert arrays["path_digests"].tobytes() == stamps.paths.tobytes()
    assert all(f"`{name}`" in DOCUMENT for name in (*arrays, *notes))


def test_every_field_of_a_catalogs_header_is_described(tmp_path):
    project = Project(tmp_path)
    project.put("a.wav")
    project.build()
    for line in (tmp_path / "output" / HEADER_PATH).read_text().splitlines():
        assert all(f"`{name}`" in DOCUMENT for name in json.loads(line))


def test_every_field_of_manifests_and_snapshots_is_described(output):
    audio = LocalStorage(output / "audio")
    fields = set()
    for path in [*(output / "audio/manifests").rglob("*.json"), *(output / "audio/snapshots").glob("*.json")]:
        fields |= set(re.findall(r'^ {1,3}"([a-z_]+)":', path.read_text(), re.MULTILINE))
    fields -= set(read_snapshot(audio).snapshot.splits)
    assert not {field for field in fields if f"`{field}`" not in DOCUMENT}


def test_every_file_has_format_version_1_and_json_files_begin_with_it(output, read):
    for path in [*output.rglob("*.idx"), *output.rglob("*.shards")]:
        kind = "headrace_index" if path.suffix == ".idx" else "headrace_shards"
        assert read(path)[1][kind] == "1"
    for path in [*output.rglob("manifests/*/*.json"), *output.rglob("snapshots/*.json")]:
        kind = "headrace_snapshot" if path.parent.name == "snapshots" else "headrace_manifest"
        content = json.loads(path.read_bytes())
        assert list(content)[:2] == [kind, "crc32"]
        assert content[kind] == 1


def test_a_row_of_the_table_has_the_documented_size(output):
    table = ShardTable.from_bytes(next((output / "audio/snapshots").glob("*.shards")).read_bytes(), "x")
    columns = ("split", "bucket", "sequence", "digest", "num_samples", "num_bytes", "num_frames")
    num_bytes = sum(getattr(table, name).nbytes for name in columns) // len(table)
    assert f"{num_bytes} bytes a row" in DOCUMENT
