"""Sets of columns are built beside the audio: what they hold, what a change writes again, and which audio they fit."""

import dataclasses
import io
import json
import tarfile
import time

import polars as pl
import pytest
from rich.console import Console

from headrace.assemble.column_sets import bring_columns_up_to_date
from headrace.audio import AudioFormat
from headrace.cli import main
from headrace.cli.tables import print_facts
from headrace.errors import BuildError, ConfigError, NotFoundError
from headrace.format.beside.column_files import publish_columns
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.column_table import ColumnKind, ColumnTable, keys_digest
from headrace.format.indexes.index_files import read_index
from headrace.format.manifests.manifests import newest_manifests
from headrace.format.shards.writer import ShardPlace
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.format.tars.member_names import KeyAt
from headrace.locate.shard_list import LocatedShard, locate_shards
from headrace.upkeep.gc import find_garbage
from headrace.upkeep.inspection import inspect
from headrace.verification.shard_check import Depth, check_shard
from headrace.verification.verify import find_target, verify
from tests.support.audio_shards import commit, tone, write_partition
from tests.support.builds import Project, twenty_clips
from tests.support.column_sets import described

pytestmark = pytest.mark.medium


def metadata_of(project: Project):
    """The newest set `metadata` that fits the newest audio snapshot."""
    return fitting_columns(project.output.at("columns/metadata"), read_snapshot(project.shards).snapshot)


def rows_of(project: Project):
    """Every sample's columns by its key, as `ColumnTable.row` gives them."""
    columns, rows = metadata_of(project), {}
    for shard in read_table(project.shards, read_snapshot(project.shards).snapshot).names():
        index, table = read_index(project.shards, shard), columns.read(shard)
        assert table.keys_sha256 == keys_digest(index.keys())
        assert table.specs == columns.specs
        rows |= {key: table.row(row) for row, key in enumerate(index.keys())}
    return rows


def files(project: Project, suffix: str = ".columns"):
    return {entry.path for entry in project.output.list("columns/metadata/") if entry.path.endswith(suffix)}


def test_the_metadata_set_has_the_users_table_and_the_facts_of_every_sample(tmp_path):
    titles = [f"title {number}" if number else None for number in range(20)]
    project = described(twenty_clips(tmp_path), title=titles, split=[1.5] * 20, tags=[["a"], None] * 10)
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    rows = rows_of(project)
    assert len(rows) == 20
    key, row = next((key, row) for key, row in rows.items() if key.startswith("clip07"))
    assert row == {
        "key": key,
        "path": "clip07.wav",
        "start_seconds": 0.0,
        "duration_seconds": 307 / 8000,
        "sample_rate_hz": 8000,
        "num_channels": 1,
        "title": "title 7",
        "split": 1.5,
        "tags": None,
    }
    specs = {(spec.name, spec.is_fact): spec.kind for spec in metadata_of(project).specs}
    assert (specs["split", True], specs["split", False]) == (ColumnKind.STRING, ColumnKind.FLOAT)
    assert specs["tags", False] is ColumnKind.JSON


def test_segments_of_a_recording_have_its_metadata_and_their_own_start(tmp_path):
    project = described(twenty_clips(tmp_path), title=[str(number) for number in range(20)])
    project.audio = AudioFormat(None, None, None, segment_seconds=0.025)
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    rows = [row for _, row in sorted(rows_of(project).items()) if row["path"] == "clip03.wav"]
    assert [(row["title"], row["start_seconds"], row["duration_seconds"]) for row in rows] == [
        ("3", 0.0, 0.025),
        ("3", 0.025, 103 / 8000),
    ]


def test_a_changed_row_writes_one_file_again(tmp_path):
    project = described(twenty_clips(tmp_path), title=[str(number) for number in range(20)])
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    before = files(project)
    project.metadata = project.metadata.with_columns(
        title=pl.when(pl.col("path") == "clip05.wav").then(pl.lit("new")).otherwise("title")
    )
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    assert len(files(project) - before) == 1
    assert next(row["title"] for row in rows_of(project).values() if row["path"] == "clip05.wav") == "new"


def test_audio_that_changed_without_its_lengths_keeps_its_columns(tmp_path):
    project = described(twenty_clips(tmp_path), title=[str(number) for number in range(20)])
    project.build()
    first = bring_columns_up_to_date(project.output, project.config())
    before, tars = files(project), {path for path in project.files() if path.endswith(".tar")}
    project.put("clip05.wav", seed="other noise", num_frames=305)
    project.build()
    assert {path for path in project.files() if path.endswith(".tar")} - tars
    second = bring_columns_up_to_date(project.output, project.config())
    assert (files(project), second.number) == (before, first.number + 1)
    assert second.snapshot.origin["audio_snapshot"] == 2


def test_a_build_without_changes_writes_nothing(tmp_path):
    project = described(twenty_clips(tmp_path), title=[str(number) for number in range(20)])
    project.build()
    first = bring_columns_up_to_date(project.output, project.config())
    before = {entry.path for entry in project.output.list("columns/")}
    assert bring_columns_up_to_date(project.output, project.config()) == first
    assert {entry.path for entry in project.output.list("columns/")} == before


def test_columns_of_other_audio_are_not_committed_and_do_not_fit(tmp_path):
    project = twenty_clips(tmp_path)
    project.build()
    with pytest.raises(NotFoundError, match=r"no snapshot of these columns fits"):
        metadata_of(project)
    bring_columns_up_to_date(project.output, project.config())
    project.put("new.wav")
    project.build()
    with pytest.raises(NotFoundError, match=r"no snapshot of these columns fits"):
        metadata_of(project)
    config = project.config()
    project.put("newer.wav")
    project.build(commit=False)
    with pytest.raises(BuildError, match="have no columns of audio snapshot 2"):
        bring_columns_up_to_date(project.output, config)


def test_with_minimal_json_a_changed_row_touches_no_tar(tmp_path):
    project = described(twenty_clips(tmp_path), title=[str(number) for number in range(20)])
    project.asked = {"json": "minimal"}
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    tars = {path: project.shards.read(path) for path in project.files()}
    before = files(project)
    project.metadata = project.metadata.with_columns(
        title=pl.when(pl.col("path") == "clip05.wav").then(pl.lit("new")).otherwise("title")
    )
    assert not project.build().is_new
    bring_columns_up_to_date(project.output, project.config())
    assert {path: project.shards.read(path) for path in project.files()} == tars
    assert len(files(project) - before) == 1
    shard = next(path for path in tars if path.endswith(".tar"))
    with tarfile.open(fileobj=io.BytesIO(tars[shard])) as tar:
        text = tar.extractfile(next(name for name in tar.getnames() if name.endswith(".json"))).read()
    assert list(json.loads(text)) == ["headrace"]


def test_spans_have_their_own_start_and_their_rows(tmp_path):
    project = Project(tmp_path)
    project.put("long.wav", num_frames=8000)
    project.asked = {"samples": "rows", "metadata": "metadata.csv"}
    starts = [0.0, 0.25, 0.5]
    project.metadata = pl.DataFrame({
        "path": ["long.wav"] * 3, "start": starts, "duration": [0.125] * 3, "text": ["a", "b", "c"]
    })  # fmt: skip
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    rows = sorted(rows_of(project).values(), key=lambda row: row["start_seconds"])
    assert [(row["start_seconds"], row["duration_seconds"], row["text"]) for row in rows] == [
        (start, 0.125, text) for start, text in zip(starts, "abc", strict=True)
    ]


@pytest.fixture(scope="module")
def checked(tmp_path_factory):
    """A built output with its metadata set, and its files."""
    project = described(twenty_clips(tmp_path_factory.mktemp("checked")), title=[f"é{i}" for i in range(20)])
    project.build()
    bring_columns_up_to_date(project.output, project.config())
    return project, {entry.path: project.output.read(entry.path) for entry in project.output.list()}


@pytest.fixture
def output(checked):
    """The built output, restored."""
    project, contents = checked
    for entry in project.output.list():
        if contents.get(entry.path) != project.output.read(entry.path):
            project.output.delete(entry.path)
    for path, content in contents.items():
        if not project.output.exists(path):
            project.output.write(path, content)
    return project.output


def faults_of(output):
    return [(fault.where, fault.what) for fault in verify(find_target(output.uri), Depth()).faults]


def a_file(output):
    return next(entry.path for entry in output.list("columns/metadata/") if entry.path.endswith(".columns"))


def test_verify_reads_columns_and_finds_nothing_wrong(output):
    target = find_target(output.uri)
    assert sum(shard.name.endswith(".columns") for shard in target.shards) == len(target.shards) / 2
    assert all(shard.fits is not None for shard in target.shards if shard.name.endswith(".columns"))
    assert faults_of(output) == []


def test_verify_names_a_damaged_file_of_columns(output):
    path = a_file(output)
    blob = bytearray(output.read(path))
    blob[-3] ^= 1
    output.write(path, bytes(blob))
    faults = faults_of(output)
    assert [where for where, _ in faults] == [f"{output.uri}/{path}"]
    output.delete(path)
    assert any(path.rpartition("/")[2] in where + what for where, what in faults_of(output))


def test_verify_finds_rows_of_other_samples(output):
    """A file whose rows are in another order than the samples has a digest of keys that does not fit."""
    folder = output.at("columns/metadata")
    name = a_file(output).rpartition("/")[2]
    table = dataclasses.replace(ColumnTable.from_bytes(folder.read(name), name), keys_sha256="0" * 64)
    other, _ = publish_columns(folder, ShardPlace("test", 0, 0), table)
    partner = next(shard for shard in find_target(output.uri).shards if shard.fits and shard.name == name).fits
    (fault,) = check_shard(LocatedShard(folder, other, len(table), True, partner), Depth(), KeyAt.FIRST_DOT).faults
    assert "its rows are not those of the samples of" in fault.what


def test_columns_of_older_audio_are_sound(checked, output):
    project, _ = checked
    write_partition(project.shards, [{"new": tone(0.1)}], partition="test-0000")
    found = newest_manifests(project.shards).values()
    commit(project.shards, *found)
    assert faults_of(output) == []


def test_gc_keeps_columns_of_kept_snapshots_and_their_audio(checked, output):
    found = find_garbage(output, keep=1, now_seconds=time.time() + 10 * 86_400)
    assert {garbage.part: garbage.paths for garbage in found} == {"audio": [], "columns/metadata": []}


def test_inspect_lists_the_columns(output):
    (_, columns) = inspect(output.uri).parts
    assert (columns.name, columns.splits["train"].num_samples > 0) == ("columns/metadata", True)
    assert [spec.name for spec in columns.columns][-2:] == ["num_channels", "title"]
    console = Console(width=100, record=True, file=io.StringIO())
    print_facts(console, inspect(output.uri))
    text = console.export_text()
    assert "duration_seconds" in text
    assert "audio snapshot 1" in text


def test_a_set_is_exported_as_parquet(output, tmp_path, capsys):
    target = tmp_path / "metadata.parquet"
    assert main(["columns", output.uri, "--parquet", str(target)]) == 0
    assert "columns metadata: 20 samples" in capsys.readouterr().out
    table = pl.read_parquet(target)
    assert table.columns[:3] == ["key", "split", "shard"]
    assert table.filter(pl.col("path") == "clip07.wav").select("title", "start_seconds", "num_channels").rows() == [
        ("é7", 0.0, 1)
    ]
    assert [path.name for path in tmp_path.iterdir()] == ["metadata.parquet"]
    assert main(["columns", output.uri, "captions", "--parquet", str(target)]) == 1
    assert "no columns 'captions' have a snapshot; there are: metadata" in capsys.readouterr().err
    assert main(["columns", f"{output.uri}/audio", "--parquet", str(target)]) == 1
    assert main(["columns", output.uri, "--parquet", str(tmp_path / "nowhere/x.parquet")]) == 1
    assert "does not exist" in capsys.readouterr().err


def test_columns_are_no_tars(output, tmp_path, capsys):
    folder = f"{output.uri}/columns/metadata"
    assert main(["export", folder, str(tmp_path / "plain")]) == 1
    assert "a set of columns, which has no tars: name the audio or the latents" in capsys.readouterr().err
    with pytest.raises(ConfigError, match="which has no tars"):
        locate_shards(folder)
    assert main(["verify", folder]) == 0
