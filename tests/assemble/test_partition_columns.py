"""The columns of a partition are made from its audio and its rows, and written again only if one of them changed."""

import polars as pl
import pytest

from headrace.assemble.column_values import TableValues
from headrace.assemble.partition_columns import ColumnSettings, build_column_partition, columns_source, source_parts
from headrace.errors import BuildError
from headrace.format.beside.column_files import read_columns
from headrace.stores.storage import LocalStorage
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture
def folders(tmp_path):
    write_dataset(tmp_path, {"train": clips(8)})
    return LocalStorage(tmp_path / "audio"), LocalStorage(tmp_path / "columns/mine")


def build(folders, rows, numbers, partition="train-0000"):
    """Columns that have these numbers for the first clips; also the samples that were counted."""
    names = [clip.key for clip in clips(len(numbers))]
    done = []
    table = TableValues(pl.DataFrame({"n": numbers}, schema={"n": pl.Int64}), names, None)
    made = build_column_partition(partition, rows, lambda: table, *folders, done.append)
    return made, sum(done)


def numbers_of(folders, made):
    files = [read_columns(folders[1], shard.name) for shard in made.manifest.manifest.shards]
    return [[table.column("n").value(row) for row in range(len(table))] for table in files]


def test_each_audio_shard_has_a_file_with_a_row_for_each_sample(folders):
    made, done = build(folders, "1", range(8))
    assert numbers_of(folders, made) == [[0, 1, 2, 3, 4], [5, 6, 7]]
    assert (len(made.written), done) == (2, 8)


def test_equal_rows_are_not_joined_again_and_a_changed_row_writes_its_file(folders):
    first, _ = build(folders, "1", range(8))
    again, done = build(folders, "1", [])
    assert (again.manifest.number, again.written, done) == (first.manifest.number, (), 8)
    changed, _ = build(folders, "2", [0, 1, 2, 3, 4, 5, 60, 7])
    assert numbers_of(folders, changed) == [[0, 1, 2, 3, 4], [5, 60, 7]]
    assert (len(changed.written), len(changed.reused)) == (1, 1)


def test_rows_without_a_sample_are_refused(folders):
    made, _ = build(folders, "1", range(9))
    assert [row.key for row in made.manifest.manifest.refused] == [clips(9)[8].key]


def test_without_audio_shards_there_are_no_columns(folders):
    with pytest.raises(BuildError, match=r"train-0007: no audio shards in .*; build the audio shards"):
        build(folders, "1", [], "train-0007")


def test_the_wanted_digest_depends_on_audio_and_rows():
    assert source_parts(columns_source("a", "r")) == ("a", "r")
    sources = [columns_source(audio, rows) for audio in "ab" for rows in "rs"]
    assert len({ColumnSettings().wanted(source) for source in sources}) == 4
