"""Tables that are joined to the samples: the rules of the join, what is unmatched, and what a change makes stale."""

import os

import polars as pl
import pytest

from headrace.assemble.column_sets import bring_columns_up_to_date, build_columns, rows_of_set
from headrace.assemble.column_tables import divide_again, import_table
from headrace.audio import AudioFormat
from headrace.catalog.stored.column_header import read_table_header
from headrace.catalog.stored.header import read_header
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.tables.metadata_files import TableInMemory
from headrace.config.content import ColumnSetConfig
from headrace.config.partitioning import Partitioning
from headrace.errors import ConfigError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.beside.column_table import ColumnKind
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import read_snapshot, read_table
from headrace.stores.storage import LocalStorage
from tests.support.builds import twenty_clips


class Captioned:
    """A built project of twenty clips, and a table of captions that is joined to it."""

    def __init__(self, folder, **changes):
        self.project = twenty_clips(folder)
        vars(self.project).update(changes)
        self.project.build()
        self.stamp = 0

    @property
    def paths(self):
        return existing_catalog(self.project.output).recordings(["path"])["path"].to_list()

    @property
    def keys(self):
        return existing_catalog(self.project.output).recordings(["key"])["key"].to_list()

    def join(self, table: pl.DataFrame, on=None, **joined):
        """Import a table and build its columns. Returns the header of the import."""
        config, self.stamp = self.project.config(), self.stamp + 1
        entry = ColumnSetConfig(name="captions", table="captions.csv", on=on, **joined)
        header = import_table(
            existing_catalog(self.project.output), config, entry, self.stamp, lambda: TableInMemory(table)
        )
        bring_columns_up_to_date(self.project.output, config, "captions")
        return header

    def rows(self):
        """Every sample's columns by key."""
        audio = read_snapshot(self.project.shards).snapshot
        columns, rows = fitting_columns(self.project.output.at("columns/captions"), audio), {}
        for shard in read_table(self.project.shards, audio).names():
            keys, table = read_index(self.project.shards, shard).keys(), columns.read(shard)
            rows |= {key: table.row(row) for row, key in enumerate(keys)}
        return rows

    def files(self):
        return {entry.path for entry in self.project.output.list("columns/captions/") if "captions/t" in entry.path}

    def tars(self):
        """Names, bytes and times of change of all files of the audio."""
        root = self.project.folder / "output/audio"
        return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in root.rglob("*") if path.is_file()}


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    return Captioned(tmp_path_factory.mktemp("captioned"))


@pytest.mark.medium
def test_a_table_joins_by_key_and_missing_values_are_null(built):
    before = built.tars()
    first, second, *_ = built.keys
    table = pl.DataFrame({"key": [second, first], "caption": ["two", None], "snr": [2, 1], "tags": [["x"], None]})
    header = built.join(table)
    rows = built.rows()
    assert rows[first] == {"caption": None, "snr": 1, "tags": None}
    assert rows[second] == {"caption": "two", "snr": 2, "tags": ["x"]}
    assert [key for key, row in rows.items() if any(row.values())] == sorted([first, second], key=list(rows).index)
    assert (header.on, header.num_rows, header.num_unmatched, header.num_without) == ("key", 2, 0, 18)
    assert built.tars() == before


def test_rows_that_name_no_sample_are_listed_with_their_number(built):
    table = pl.DataFrame({"path": ["clip01.wav", "nowhere.wav", None, ""], "caption": ["1", "2", "3", "4"]})
    header = built.join(table)
    assert header.num_unmatched == 3
    listed = pl.read_parquet(built.project.output.read(header.unmatched))
    assert listed.select("row", "name", "reason").rows() == [
        (2, "nowhere.wav", "row 2 of the table names no recording of the catalog"),
        (3, "", "row 3 of the table has no path"),
        (4, "", "row 4 of the table has no path"),
    ]
    assert {row["caption"] for row in built.rows().values()} == {"1", None}


@pytest.mark.medium
def test_one_changed_caption_writes_one_file_and_makes_one_partition_stale(built):
    captions = [f"caption {number}" for number in range(20)]
    built.join(pl.DataFrame({"path": built.paths, "caption": captions}))
    catalog = read_header(built.project.output)
    files, tars = built.files(), built.tars()
    rows = rows_of_set(built.project.output, catalog, "captions")
    captions[7] = "another"
    built.join(pl.DataFrame({"path": built.paths, "caption": captions})[::-1])  # another order changes nothing
    changed = rows_of_set(built.project.output, catalog, "captions")
    assert len([name for name in rows if rows[name] != changed[name]]) == 1
    assert len(built.files() - files) == 1
    assert built.tars() == tars


def test_the_join_reads_no_table_again_if_nothing_changed(built):
    table = pl.DataFrame({"path": built.paths, "caption": "same"})
    header = built.join(table)
    config, entry = built.project.config(), ColumnSetConfig(name="captions", table="captions.csv")

    def read():
        raise AssertionError("read again")

    assert import_table(existing_catalog(built.project.output), config, entry, built.stamp, read) == header
    build = build_columns(built.project.output, config, "captions", "train-0000")
    assert not build.written


@pytest.mark.medium
def test_types_are_those_of_the_table(built):
    paths = built.paths[:2]
    big = 1 << 63
    table = pl.DataFrame({
        "path": paths,
        "a": pl.Series([1, 2], dtype=pl.UInt64),
        "b": pl.Series([big, 1], dtype=pl.UInt64),
        "c": pl.Series([1.5, float("nan")]),
        "d": [True, None],
        "e": pl.Series(["2024-05-01", None]).str.to_date(),
        "f": [{"x": 1}, None],
        "g": pl.Series([None, None], dtype=pl.String),
    })  # fmt: skip
    built.join(table)
    columns = fitting_columns(built.project.output.at("columns/captions"), read_snapshot(built.project.shards).snapshot)
    kinds = {spec.name: spec.kind for spec in columns.specs}
    K = ColumnKind  # noqa: N806 - a short name
    assert kinds == {"a": K.INT, "b": K.JSON, "c": K.FLOAT, "d": K.BOOL, "e": K.STRING, "f": K.JSON, "g": K.STRING}
    rows = sorted((row for row in built.rows().values() if row["a"]), key=lambda row: row["a"])
    assert rows == [
        {"a": 1, "b": big, "c": 1.5, "d": True, "e": "2024-05-01", "f": {"x": 1}, "g": None},
        {"a": 2, "b": 1, "c": None, "d": None, "e": None, "f": None, "g": None},
    ]


def test_equal_rows_are_merged_and_different_ones_are_an_error_that_names_them(built):
    path = built.paths[0]
    table = pl.DataFrame({"path": [path, "./" + path, path], "caption": ["a", "a", "a"]})
    assert built.join(table).num_merged == 2
    before = built.rows()
    with pytest.raises(ConfigError, match=r"'clip00.wav' \(rows 1 and 3 differ in caption\); keep one row of each"):
        built.join(table.with_columns(caption=pl.Series(["a", "a", "b"])))
    assert built.rows() == before


def test_paths_are_absolute_or_relative_to_the_source_as_in_the_metadata(built):
    root, paths = built.project.folder / "source", built.paths
    table = pl.DataFrame(
        {"path": [f"{root}/{paths[0]}", f"./{paths[1]}", f"{root}/no.wav"], "caption": ["x", "y", "z"]}
    )
    assert built.join(table).num_unmatched == 1
    captions = {row["caption"]: key for key, row in built.rows().items()}
    assert [captions["x"], captions["y"]] == built.keys[:2]


def test_the_joined_column_is_key_unless_the_yaml_says_path(built):
    table = pl.DataFrame({"key": built.keys[:1], "path": built.paths[1:2], "caption": ["x"]})
    assert (built.join(table).on, built.join(table, "path").on) == ("key", "path")
    assert [row["key"] for row in built.rows().values() if row["caption"]] == built.keys[:1]


@pytest.mark.parametrize("on", ["key", "path"])
def test_the_joining_column_may_have_any_name_and_others_may_be_called_key_and_path(built, on):
    names = {"key": built.keys, "path": built.paths}[on][:2]
    table = pl.DataFrame({"utt": [*names, "no"], "key": ["x", "y", "z"], "path": ["p", "q", "r"], "on": [1, 2, 3]})
    header = built.join(table, **{on: "utt"})
    assert (header.on, header.column, header.num_unmatched, header.num_without) == (on, "utt", 1, 18)
    assert header.types == {"key": "text", "on": "int", "path": "text"}
    rows = built.rows()
    first, second = built.keys[:2]
    assert rows[first] == {"key": "x", "path": "p", "on": 1}
    assert rows[second] == {"key": "y", "path": "q", "on": 2}
    listed = pl.read_parquet(built.project.output.read(header.unmatched))
    assert listed.rows() == [(3, "no", "no_sample", f"row 3 of the table names no {_WHAT[on]} of the catalog")]


_WHAT = {"key": "sample", "path": "recording"}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"caption": ["x"]}, "has no column 'key' or 'path'.*names the joining column"),
        ({"key": ["x"]}, "has no column but 'key'"),
        ({"key": ["x"], "headrace": [1]}, "the name of the provenance"),
        ({"key": ["x"], "raw": [b"x"]}, "JSON cannot represent"),
    ],
)
def test_a_table_that_cannot_be_joined_is_an_error(built, columns, message):
    with pytest.raises(ConfigError, match=message):
        built.join(pl.DataFrame(columns))


@pytest.mark.medium
def test_a_table_by_key_names_segments_and_one_by_path_all_of_them(tmp_path):
    built = Captioned(tmp_path, audio=AudioFormat(None, None, None, segment_seconds=0.025))
    key = built.keys[3]
    header = built.join(pl.DataFrame({"key": [f"{key}-s000001", key, f"{key}-s000007"], "caption": ["a", "b", "c"]}))
    assert {name: row["caption"] for name, row in built.rows().items() if row["caption"]} == {f"{key}-s000001": "a"}
    assert header.num_unmatched == 2
    header = built.join(pl.DataFrame({"path": ["clip03.wav"], "caption": ["d"]}))
    assert [name for name, row in built.rows().items() if row["caption"]] == [f"{key}-s000000", f"{key}-s000001"]
    assert (header.num_unmatched, header.num_without) == (0, 19)


@pytest.mark.medium
def test_a_row_of_a_rejected_recording_is_listed_in_the_manifest(tmp_path):
    project = twenty_clips(tmp_path)
    project.put("short.wav", num_frames=1)
    project.audio = AudioFormat(1000, None, None)  # at which a frame of the recording is nothing
    built = Captioned(tmp_path, audio=project.audio)
    header = built.join(pl.DataFrame({"path": ["short.wav", "clip05.wav"], "caption": ["a", "b"]}))
    manifests = [
        build_columns(project.output, built.project.config(), "captions", name).manifest.manifest
        for name in project.layout.partition_keys()
    ]
    listed = [(refusal.path, refusal.code) for manifest in manifests for refusal in manifest.refused]
    assert (listed, header.num_unmatched) == ([("short.wav", "no_sample")], 0)
    assert [row["caption"] for row in built.rows().values() if row["caption"]] == ["b"]


@pytest.mark.medium
def test_a_new_partition_layout_imports_the_table_again(tmp_path):
    built = Captioned(tmp_path)
    table = pl.DataFrame({"path": built.paths, "caption": "x"})
    built.join(table)
    built.project.layout.partitions["train"] = 3
    built.project.build()
    built.join(table)
    assert len(read_table_header(built.project.output, "captions").partitions) == 4
    assert {row["caption"] for row in built.rows().values()} == {"x"}


@pytest.mark.medium
def test_parts_that_are_not_needed_are_removed_after_a_day(tmp_path):
    built = Captioned(tmp_path)
    headers = []
    for caption in ("first", "second", "third"):
        headers.append(built.join(pl.DataFrame({"path": built.paths, "caption": caption})))
        for path in (tmp_path / "output/catalog/columns").rglob("*.parquet"):
            os.utime(path, (1e9, 1e9))
    there = {entry.path for entry in built.project.output.list("catalog/columns/")}
    assert there == {*headers[2].paths(), *headers[1].paths(), "catalog/columns/captions/table.json"}


def test_intervals_stay_intervals(built):
    words = [[{"start": 0.0, "end": 1.5, "word": "ja"}], []]
    dtype = pl.List(pl.Struct({"start": pl.Float64, "end": pl.Float64, "word": pl.String}))
    table = pl.DataFrame({"path": built.paths[:2], "words": pl.Series(words, dtype=dtype)})
    assert built.join(table).types == {"words": "intervals"}
    columns = fitting_columns(built.project.output.at("columns/captions"), read_snapshot(built.project.shards).snapshot)
    assert [spec.kind for spec in columns.specs] == [ColumnKind.INTERVALS]
    assert sorted(map(str, (row["words"] for row in built.rows().values() if row["words"] is not None))) == [
        "[]",
        "[{'start': 0.0, 'end': 1.5, 'word': 'ja'}]",
    ]


LAYOUTS = {
    "other shares": {"splits": {"train": 0.2, "test": 0.8}, "partitions": {"train": 2}},
    "more partitions": {"splits": {"train": 0.8, "test": 0.2}, "partitions": {"train": 5}},
    "fewer partitions": {"splits": {"train": 0.8, "test": 0.2}, "partitions": {}},
    "another split": {"splits": {"train": 0.5, "held-out": 0.5}, "partitions": {"train": 2}},
}


def table_gone(captioned, entry):
    divide_again(existing_catalog(captioned.project.output), captioned.project.config(), entry)


def table_invalid(captioned, entry):
    table = TableInMemory(pl.DataFrame({entry.on: ["x", "x"], "caption": ["1", "2"]}))
    with pytest.raises(ConfigError, match="different rows"):
        import_table(
            existing_catalog(captioned.project.output), captioned.project.config(), entry, "new", lambda: table
        )


@pytest.mark.medium
@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("fails", [table_gone, table_invalid])
@pytest.mark.parametrize("on", ["key", "path"])
def test_samples_that_move_keep_their_values_while_their_table_cannot_be_read(tmp_path, fails, on, layout):
    captioned = Captioned(tmp_path)
    names = captioned.keys if on == "key" else captioned.paths
    table = pl.DataFrame(
        {on: names, "caption": [f"about {name}" for name in names], "tags": [[name] for name in names]}
    )
    header = captioned.join(table, on=on)
    expected = captioned.rows()
    captioned.project.layout = Partitioning(**layout, samples_per_shard=4)
    captioned.project.build()
    fails(captioned, ColumnSetConfig(name="captions", table="captions.csv", on=on))
    bring_columns_up_to_date(captioned.project.output, captioned.project.config(), "captions")
    assert captioned.rows() == expected
    again = captioned.join(table, on=on)
    assert (again.num_rows, again.num_without, again.types) == (header.num_rows, 0, header.types)
    assert captioned.rows() == expected


@pytest.mark.medium
@pytest.mark.parametrize("fails", [table_gone, table_invalid])
@pytest.mark.parametrize("on", ["key", "path"])
def test_samples_that_come_back_get_their_values_while_their_table_cannot_be_read(tmp_path, fails, on, monkeypatch):
    captioned, entry = Captioned(tmp_path), ColumnSetConfig(name="captions", table="captions.csv", on=on)
    names = captioned.keys if on == "key" else captioned.paths
    captioned.join(pl.DataFrame({on: names, "caption": [f"about {name}" for name in names]}), on=on)
    expected, gone = captioned.rows(), captioned.keys[3:9]
    for excluded in (gone, ()):
        captioned.project.exclude = tuple(excluded)
        captioned.project.build()
        fails(captioned, entry)
    bring_columns_up_to_date(captioned.project.output, captioned.project.config(), "captions")
    assert captioned.rows() == expected
    read, own = [], LocalStorage.read
    monkeypatch.setattr(LocalStorage, "read", lambda self, path: read.append(path) or own(self, path))
    fails(captioned, entry)
    assert not [path for path in read if "columns/captions/parts" in path]  # the catalog is that of the last time
