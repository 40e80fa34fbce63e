"""Rows with named audio fields: what their files must have in common."""

import polars as pl
import pytest

from headrace.catalog.compared.changes import compare_catalogs
from headrace.catalog.rows.field_files import files_of
from headrace.catalog.stored.partitions import recordings_of
from tests.support.catalog_fakes import NOW_NS
from tests.support.row_acceptance import rejects, rows_of, source_of

STEMS = {"mix": "mix_path", "vocals": "vocals_path"}


def test_fields_name_a_file_each_and_end_with_the_shortest():
    source = source_of({"m.wav": 100, "v.wav": 99, "w.wav": 100})
    table = pl.DataFrame({"mix_path": ["m.wav", "m.wav"], "vocals_path": ["v.wav", "w.wav"], "end": [None, 2.0]})
    result = rows_of(table, source, fields=STEMS, span_tolerance_seconds=0.1)
    whole = next(found for found in recordings_of(result.recordings) if found.stop_frame == 99)
    assert [(file.name, file.path, file.info.num_frames) for file in whole.fields] == [
        ("mix", "m.wav", 100),
        ("vocals", "v.wav", 99),
    ]
    assert whole.metadata["vocals_path"] == "v.wav"
    assert files_of(result.recordings)["path"].sort().to_list() == ["m.wav", "v.wav", "w.wav"]
    source.opened.clear()
    assert rows_of(table, source, result.catalog, fields=STEMS, span_tolerance_seconds=0.1).num_opened == 0
    source.put("v.wav", b"y" * 99, mtime_ns=5)
    changed = rows_of(table, source, result.catalog, fields=STEMS, span_tolerance_seconds=0.1)
    differ = changed.recordings["recording_digest"] != result.recordings["recording_digest"]
    assert (changed.num_opened, differ.sum()) == (1, 1)
    changes = compare_catalogs(result.catalog, changed.catalog)
    assert (changes.changed, changes.described) == (("v.wav",), ("m.wav",))


@pytest.mark.medium
def test_rows_wait_for_files_that_are_still_written():
    source = source_of({"m.wav": 100, "v.wav": 100})
    source.put("young.wav", b"x" * 100, mtime_ns=NOW_NS)
    table = pl.DataFrame({"mix_path": ["m.wav", "m.wav", "young.wav"], "vocals_path": ["v.wav", "young.wav", "gone"]})
    table = table.with_columns(end=pl.Series([None, 5.0, None]))
    result = rows_of(table, source, fields=STEMS, settle_seconds=5)
    assert (result.recordings.height, result.num_waiting_rows, rejects(result)) == (1, 2, [])
    later = rows_of(table, source, result.catalog, fields=STEMS)
    assert (later.recordings.height, later.num_waiting_rows) == (2, 0)
    assert [code for _, code, _ in rejects(later)] == ["metadata_without_file"]


@pytest.mark.medium
def test_rows_with_a_field_that_cannot_be_used_are_rejected():
    source = source_of({"m.wav": 100, "n.wav": 100, "short.wav": 50}, bad=["bad.wav"])
    others = ["n.wav", "short.wav", "bad.wav", "gone.wav", None]
    table = pl.DataFrame({"mix_path": ["m.wav"] * 5, "vocals_path": others})
    result = rows_of(table, source, fields=STEMS)
    assert result.recordings.height == 1
    assert sorted(code for _, code, _ in rejects(result)) == [
        "bad_name",
        "fields_differ",
        "file_rejected",
        "metadata_without_file",
    ]
    assert all("vocals" in reason for *_, reason in rejects(result))
