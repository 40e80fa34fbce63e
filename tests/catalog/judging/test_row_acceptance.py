"""A scan whose samples are rows of the metadata: which rows are accepted, with which frames and keys, and why not."""

import json
import math

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.catalog.compared.changes import compare_catalogs
from headrace.catalog.judging.acceptance import decode_rejects, sorted_rejects
from headrace.catalog.rows.metadata_columns import metadata_dicts
from headrace.catalog.tables.metadata_files import read_metadata
from headrace.config.source import ColumnsConfig, Duplicates, KeyForm
from headrace.errors import ConfigError
from headrace.format.keys import sample_keys
from headrace.format.rejects import RejectSubject
from tests.support.row_acceptance import FILES, rejects, rows_of, source_of

MAPPED = ColumnsConfig(path="audio_filepath", start="offset", duration="duration", key="utt_id")


def spans(result):
    return list(result.recordings.select("path", "start_frame", "stop_frame").iter_rows())


def one(seconds, **columns):
    """The rejects of a table with one good row, and a second row."""
    table = pl.DataFrame({"path": ["a.wav", "a.wav"], **{name: [0.0, value] for name, value in seconds.items()}})
    return rejects(rows_of(table.with_columns(end=pl.col("end").replace(0.0, 1.0)), **columns))


def test_frames_are_rounded_half_up_at_the_recordings_own_rate():
    table = pl.DataFrame({"path": ["a.wav"] * 3, "start": [None, 0.25, 1.04], "end": [0.35, None, 2.06]})
    assert spans(rows_of(table)) == [("a.wav", 0, 4), ("a.wav", 3, 100), ("a.wav", 10, 21)]
    table = pl.DataFrame({"path": ["a.wav"], "start": [0.26], "duration": [0.25]})
    assert spans(rows_of(table)) == [("a.wav", 3, 6)]


def test_a_table_of_another_tool_is_read_as_it_is():
    table = pl.DataFrame(
        {
            "audio_filepath": ["a.wav", "b/c.wav"],
            "offset": ["1.5", ""],
            "duration": ["2", "1e0"],
            "utt_id": ["u1", "u2"],
        }
    )
    result = rows_of(table, columns=MAPPED)
    assert result.recordings["key"].to_list() == ["u1", "u2"]
    assert spans(result) == [("a.wav", 15, 35), ("b/c.wav", 0, 10)]
    assert metadata_dicts(result.recordings)[0] == {
        "audio_filepath": "a.wav",
        "offset": "1.5",
        "duration": "2",
        "utt_id": "u1",
    }


def test_a_manifest_of_nemo_is_a_table_as_it_is(tmp_path):
    manifest = tmp_path / "manifest.json"
    manifest.write_text(
        '{"audio_filepath": "/data/speech/a.wav", "offset": 1.5, "duration": 2, "text": "one"}\n'
        '{"audio_filepath": "/data/speech/a.wav", "offset": 3.5, "duration": 2.5, "text": "two"}\n'
        '{"audio_filepath": "/data/speech/d.wav", "duration": 0.7}\n'
    )
    source = source_of()
    source.uri = "/data/speech"
    columns = ColumnsConfig(path="audio_filepath", start="offset", duration="duration")
    result = rows_of(read_metadata(manifest, path_column="audio_filepath"), source, columns=columns)
    assert spans(result) == [("a.wav", 15, 35), ("a.wav", 35, 60), ("d.wav", 0, 7)]


def test_nan_in_a_manifest_of_json_lines_is_a_reject_and_not_the_end_of_the_recording(tmp_path):
    manifest = tmp_path / "manifest.jsonl"
    rows = [{"path": "a.wav", "start": 1.0, "duration": seconds} for seconds in (1.0, math.nan)]
    manifest.write_text("\n".join(map(json.dumps, rows)))
    result = rows_of(read_metadata(manifest))
    assert spans(result) == [("a.wav", 10, 20)]
    assert [code for _, code, _ in rejects(result)] == ["bad_span"]


def test_a_row_with_a_duration_and_an_invalid_end_is_rejected_by_itself():
    table = pl.DataFrame({"path": ["a.wav", "a.wav"], "end": [None, math.nan], "duration": [1.0, 2.0]})
    result = rows_of(table)
    assert spans(result) == [("a.wav", 0, 10)]
    assert [code for _, code, _ in rejects(result)] == ["bad_span"]


def test_keys_are_made_of_recording_and_span_and_fit_in_a_tar():
    long = "x" * 90 + ".wav"
    table = pl.DataFrame({"path": ["a.wav", long], "start": [1.0, 0.0]})
    result = rows_of(table, source_of({"a.wav": 100, long: 20}))
    first, second = result.recordings["key"]
    assert first == sample_keys(pl.Series(["a.wav"]))[0] + "-f10-100"
    assert second.endswith(sample_keys(pl.Series([long]))[0][-13:] + "-f0-20")
    assert len(second) <= 80


def test_a_column_named_key_is_metadata_without_columns_key():
    table = pl.DataFrame({"path": ["a.wav", "a.wav"], "end": [1.0, 2.0], "key": ["C# minor", "C# minor"]})
    result = rows_of(table)
    assert metadata_dicts(result.recordings)[0]["key"] == "C# minor"


@pytest.mark.parametrize(
    ("row", "code", "words"),
    [
        ({"start": math.nan, "end": 1.0}, "bad_span", "row 2 .*start: NaN.* not a finite"),
        ({"start": 0.0, "end": math.inf}, "bad_span", "row 2 .*end: inf.* not a finite"),
        ({"start": -0.1, "end": 1.0}, "bad_span", "row 2 .*start: -0.1, expected seconds, not below 0"),
        ({"start": 2.0, "end": 1.0}, "bad_span", "row 2 .*end: 1.0, before its start: 2.0"),
        ({"start": 10.5, "end": 11.0}, "outside_recording", "row 2 .*begins at 10.5 s, but a.wav ends at 10.0 s"),
        ({"start": 9.0, "end": 10.2}, "outside_recording", "row 2 .*ends at 10.2 s.*span_tolerance_seconds is 0.1"),
        ({"start": 1.0, "end": 1.01}, "empty_span", "row 2 .*empty span"),
        ({"start": 10.0, "end": None}, "empty_span", "row 2 .*empty span"),
        ({"start": 10.5, "end": None}, "outside_recording", "row 2 .*begins at 10.5 s, but a.wav ends at 10.0 s"),
        ({"start": 1e300, "end": None}, "outside_recording", "row 2 "),
    ],
)
def test_a_bad_span_is_a_reject_that_names_its_row(row, code, words):
    ((path, found, reason),) = one(row, span_tolerance_seconds=0.1)
    assert path == "a.wav"
    assert found in code.split("|")
    assert pl.Series([reason]).str.contains(words).all(), reason


def test_text_that_is_no_number_is_a_reject_with_the_text():
    table = pl.DataFrame({"path": ["a.wav"] * 2, "start": ["0", "1:30"]})
    ((_, code, reason),) = rejects(rows_of(table))
    assert (code, "start: 1:30, which is not a finite number" in reason) == ("bad_span", True)


def test_a_span_that_ends_a_little_after_its_recording_is_cut_and_counted():
    result = rows_of(pl.DataFrame({"path": ["a.wav"], "start": [9.0], "end": [10.1]}), span_tolerance_seconds=0.1)
    assert (spans(result), result.num_cut_rows) == ([("a.wav", 90, 100)], 1)


def test_a_row_with_end_and_duration_is_an_error_for_the_table():
    table = pl.DataFrame({"path": ["a.wav"], "end": [1.0], "duration": [1.0]})
    with pytest.raises(ConfigError, match=r"both an end .* and a duration .* rows 1: both given is an error; name the"):
        rows_of(table)
    assert spans(rows_of(table, columns=ColumnsConfig(duration="duration"))) == [("a.wav", 0, 10)]
    assert spans(rows_of(table, columns=ColumnsConfig(end="end", duration=None))) == [("a.wav", 0, 10)]


def test_unknown_and_damaged_files_bad_and_taken_keys_are_rejects_of_rows():
    table = pl.DataFrame(
        {
            "path": ["a.wav", "gone.wav", "bad.wav", "a.wav", "a.wav", None],
            "end": [1.0, 1.0, 1.0, 2.0, 3.0, 1.0],
            "utt": ["u", "v", "w", "u", "a b", "x"],
        }
    )
    result = rows_of(table, source_of(bad=["bad.wav"]), columns=ColumnsConfig(key="utt"))
    assert sorted((path, code) for path, code, _ in rejects(result)) == [
        ("", "bad_name"),
        ("a.wav", "bad_key"),
        ("a.wav", "duplicate_key"),
        ("bad.wav", "file_rejected"),
        ("gone.wav", "metadata_without_file"),
    ]
    assert any("row 4 of the metadata table has the key 'u', which row 1 already has" in r for *_, r in rejects(result))
    files = {path: code for path, code, _ in rejects(result, RejectSubject.FILE)}
    assert files == {"b/c.wav": "no_row", "d.wav": "no_row", "bad.wav": "undecodable"}


def test_the_reason_for_a_whole_transcript_as_key_has_its_beginning():
    table = pl.DataFrame({"path": ["a.wav"], "end": [1.0], "utt": ["ja und\nwords " * 10_000]})
    ((_, code, reason),) = rejects(rows_of(table, columns=ColumnsConfig(key="utt")))
    assert code == "bad_key"
    assert "ja und\nwords ja und" in reason
    assert len(reason) < 500


def test_key_form_slug_makes_keys_of_any_text():
    table = pl.DataFrame({"path": ["a.wav"] * 2, "end": [1.0, 2.0], "utt": ["a b", "a_b"]})
    asked = {"columns": ColumnsConfig(key="utt"), "key_form": KeyForm.SLUG}
    keys = rows_of(table, **asked).recordings["key"].to_list()
    assert keys == ["a_b-c8687a08aa5d", "a_b"]


def test_equal_rows_are_merged_and_rows_that_differ_collide_in_their_derived_key():
    table = pl.DataFrame({"path": ["a.wav"] * 3, "end": [1.0] * 3, "text": ["x", "x", "y"]})
    result = rows_of(table)
    assert result.num_merged_rows == 1
    assert [code for _, code, _ in rejects(result)] == ["duplicate_key"]


@pytest.mark.medium
def test_duplicates_have_the_same_bytes_and_the_same_frames():
    table = pl.DataFrame({"path": ["a.wav", "a2.wav", "a2.wav"], "end": [1.0, 1.0, 2.0]})
    source = source_of({"a.wav": 100, "a2.wav": 100})
    assert rows_of(table, source).recordings["duplicate_of"].to_list().count(None) == 2
    dropped = rows_of(table, source, duplicates=Duplicates.DROP)
    assert [code for _, code, _ in rejects(dropped)] == ["duplicate"]


def test_rows_are_excluded_by_their_keys_and_by_the_key_of_their_recording():
    table = pl.DataFrame({"path": ["a.wav", "a.wav", "b/c.wav"], "end": [1.0, 2.0, 1.0]})
    first, second, third = rows_of(table).recordings["key"]
    result = rows_of(table, excluded=frozenset({first, third.partition("-f")[0], "nothing"}))
    assert result.recordings["key"].to_list() == [second]
    assert [code for _, code, _ in rejects(result)] == ["excluded"] * 2
    assert [code for _, code, _ in rejects(result, RejectSubject.EXCLUDE)] == ["excludes_nothing"]


def test_digests_are_those_of_all_versions():
    """Other digests would make every shard stale."""
    table = pl.DataFrame(
        {
            "path": ["a.wav", "a.wav", "a.wav", "b/c.wav", "d.wav"],
            "start": [0.0, 0.1, 0.0, 4.9, None],
            "end": [9.9, 10.0, None, 5.0, None],
            "text": ["Bär", None, "x", "y", "z"],
            "n": [1, 2, 3, None, 5],
        }
    )
    found = rows_of(table).recordings.select("path", "start_frame", "stop_frame", "recording_digest")
    assert found.rows() == [
        ("a.wav", 0, 99, "58e6e676ca3fe083084399001b9db628"),
        ("a.wav", 0, 100, "34c0a13e9fcc7194552ebd018fab2943"),
        ("a.wav", 1, 100, "745af338e62a9ac24407540cec6d2782"),
        ("b/c.wav", 49, 50, "7f961a3271a4b7f8f1b97937cbd3143e"),
        ("d.wav", 0, 7, "f78318abbb85cd88c9d272354eedb861"),
    ]


def test_a_second_scan_opens_nothing_and_finds_the_same():
    table = pl.DataFrame({"path": ["a.wav", "a.wav"], "end": [1.0, 99.0]})
    source = source_of()
    first = rows_of(table, source)
    source.opened.clear()
    second = rows_of(table, source, first.catalog)
    assert source.opened == []
    assert second.recordings.equals(first.recordings)
    assert compare_catalogs(first.catalog, second.catalog).is_empty


def test_a_file_is_described_in_another_way_if_any_of_its_rows_is():
    table = pl.DataFrame({"path": ["a.wav", "a.wav", "d.wav"], "end": [1.0, 2.0, 0.5], "text": ["x", "y", "z"]})
    first = rows_of(table)
    second = rows_of(table.with_columns(text=pl.Series(["x", "other", "z"])))
    assert compare_catalogs(first.catalog, second.catalog).described == ("a.wav",)
    assert compare_catalogs(first.catalog, rows_of(table.reverse()).catalog).is_empty


def test_a_fault_of_a_file_rejects_its_whole_row_and_a_fault_of_a_key_the_row_of_the_key():
    table = pl.DataFrame(
        {"path": ["a.wav"] * 3 + ["d.wav"], "start": [None, 1, None, None], "end": [None, None, 5, None]}
    )
    result = rows_of(table.cast({"start": pl.Float64, "end": pl.Float64}))
    assert spans(result) == [("a.wav", 0, 50), ("a.wav", 0, 100), ("a.wav", 10, 100), ("d.wav", 0, 7)]
    rows, (part, whole, *_) = result.recordings, result.recordings["key"]
    files = pl.DataFrame({"path": ["a.wav", "a.wav"], "code": ["damaged", "truncated"], "reason": ["r", "s"]})
    found = decode_rejects(rows, files)
    assert found.select("path", "key", "code").rows() == [("a.wav", whole, "damaged")]
    of_keys = files.with_columns(key=pl.lit(part))
    assert decode_rejects(rows, of_keys).select("path", "key", "code").rows() == [("a.wav", part, "damaged")]


def test_rejects_are_sorted_and_those_with_a_key_are_before_the_one_without():
    rows = [
        ("a", "file", None, "r"),
        ("a", "metadata", "k", "r"),
        ("a", "metadata", "k", "s"),
        ("a", "metadata", None, "r"),
    ]
    table = pl.DataFrame(rows, schema=["path", "origin", "key", "reason"], orient="row")
    assert sorted_rejects(table.reverse()).rows() == rows


def test_absolute_paths_below_the_source_are_accepted():
    source = source_of()
    source.uri = "/data/speech"
    assert spans(rows_of(pl.DataFrame({"path": ["/data/speech/b/c.wav"]}), source)) == [("b/c.wav", 0, 50)]


SECONDS = st.none() | st.floats(-1, 12) | st.sampled_from([math.nan, math.inf, 10.0, 10.05, 0.0])


@pytest.mark.medium
@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.sampled_from([*FILES, "bad.wav", "gone.wav", None]), SECONDS, SECONDS), max_size=12),
    st.booleans(),
)
def test_every_row_is_accepted_rejected_or_merged_and_frames_follow_the_rule(rows, has_duration):
    last = "duration" if has_duration else "end"
    types = {"path": pl.String, "start": pl.Float64, last: pl.Float64}
    table = pl.DataFrame(rows, types, orient="row")
    result = rows_of(table, source_of(bad=["bad.wav"]))
    metadata = metadata_dicts(result.recordings)
    for (path, start_frame, stop_frame), row in zip(spans(result), metadata, strict=True):
        start, end = row["start"], row[last]
        begin = 0 if start is None else math.floor(start * 10 + 0.5)
        stop = FILES[path] if end is None else math.floor(end * 10 + 0.5) + (begin if has_duration else 0)
        assert start_frame == begin
        assert stop_frame == min(stop, FILES[path])
        assert stop <= FILES[path] + 1
        assert start_frame < stop_frame


def test_a_scan_of_ten_thousand_rows_has_one_row_per_span():
    starts = pl.Series(range(10_000)) / 1000
    table = pl.DataFrame({"path": ["long.wav"] * 10_000, "start": starts, "duration": [1000.0] * 10_000})
    result = rows_of(
        table.with_columns(utt=pl.int_range(10_000)), source_of({"long.wav": 20_000}), columns=ColumnsConfig(key="utt")
    )
    assert result.recordings.height == 10_000


# Named audio fields
