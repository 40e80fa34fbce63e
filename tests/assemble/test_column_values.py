"""The rows that are joined to samples: the facts of the catalog, and tables joined by key or path."""

from types import SimpleNamespace

import numpy as np
import polars as pl
import pytest

from headrace.assemble.column_values import FACTS, MetadataValues, TableValues, paths_of_samples
from headrace.assemble.samples import planned_samples
from headrace.audio import AudioFormat
from headrace.errors import BuildError
from tests.support.recordings import recording

WHOLE, CUT = AudioFormat(), AudioFormat(segment_seconds=5.0)


def index(*keys, frames=50):
    return SimpleNamespace(
        shard="s.tar",
        keys=lambda: list(keys),
        num_frames=np.full(len(keys), frames),
        sample_rate_hz=np.full(len(keys), 10),
        num_channels=np.full(len(keys), 2),
    )


def values(columns):
    return {column.spec.name: list(column.take(range(len(column)))) for column in columns}


def metadata(rows, audio, **columns):
    planned, _ = planned_samples(rows, audio)
    return MetadataValues("test-0001", pl.DataFrame(columns), planned, {row.key: n for n, row in enumerate(rows)})


def test_facts_and_metadata_are_those_of_the_recording_of_each_sample():
    rows = [recording("a"), recording("b", start_frame=30, stop_frame=80)]
    found = metadata(rows, CUT, title=["A", "B"]).columns(index("b-s000000", "a-s000001"))
    assert [column.spec for column in found][: len(FACTS)] == list(FACTS)
    assert values(found) == {
        "key": ["b-s000000", "a-s000001"],
        "path": ["b.wav", "a.wav"],
        "split": ["test", "test"],
        "start_seconds": [3.0, 5.0],
        "duration_seconds": [5.0, 5.0],
        "sample_rate_hz": [10, 10],
        "num_channels": [2, 2],
        "title": ["B", "A"],
    }


def test_a_sample_that_the_catalog_lacks_is_of_another_catalog():
    with pytest.raises(BuildError, match=r"s\.tar: the catalog has no sample 'x'"):
        metadata([recording("a")], WHOLE).columns(index("a", "x"))


def test_a_table_joined_by_key_has_nulls_for_samples_without_a_row():
    table = TableValues(pl.DataFrame({"n": [1, 2, 3]}), ["c", "a", "lost"], None)
    assert values(table.columns(index("a", "b")))["n"] == [2, None]
    assert values(table.columns(index("c")))["n"] == [1]
    (left,) = table.left_over()
    assert (left.key, left.path, left.code) == ("lost", "", "no_sample")


def test_a_table_joined_by_path_has_a_row_for_each_segment():
    rows = [recording("a"), recording("b")]
    paths = paths_of_samples(rows, CUT)
    assert paths == {"a-s000000": "a.wav", "a-s000001": "a.wav", "b-s000000": "b.wav", "b-s000001": "b.wav"}
    table = TableValues(pl.DataFrame({"n": [1, 2]}), ["a.wav", "c.wav"], paths)
    assert values(table.columns(index("a-s000000", "a-s000001", "b-s000000")))["n"] == [1, 1, None]
    (left,) = table.left_over()
    assert (left.key, left.path) == ("", "c.wav")
