"""The samples of recordings are planned: their keys, their JSON, and the recordings without any."""

import json

from headrace.assemble.samples import ordered_samples, planned_samples, rejection_key, sample_json, sample_key
from headrace.audio import AudioFormat, EncodedSegment, Segment
from headrace.catalog.rows.recordings import FieldFile
from tests.support.recordings import recording

WHOLE, CUT = AudioFormat(), AudioFormat(segment_seconds=3.0, last_segment="drop")
ENCODED = EncodedSegment(b"", 0, 90, 16_000, 2, 16)


def test_a_whole_recording_is_a_sample_with_its_key():
    planned, refused = planned_samples([recording("a"), recording("b")], WHOLE)
    assert list(planned) == ["a", "b"]
    assert planned["a"][1] == Segment(0, 0, 100)
    assert refused == []


def test_segments_have_numbers_and_excluded_ones_are_left_out():
    planned, _ = planned_samples([recording("a", excluded_segments=frozenset({"a-s000001"}))], CUT)
    assert list(planned) == ["a-s000000", "a-s000002"]
    assert sample_key(recording("a"), Segment(7, 0, 1), is_whole=False) == "a-s000007"


def test_a_recording_that_is_too_short_is_refused_with_the_setting_that_says_so():
    short, span = recording("a", 20), recording("b", start_frame=5, stop_frame=9)
    planned, refused = planned_samples([short, span], CUT)
    assert planned == {}
    assert [(row.path, row.key, row.code) for row in refused] == [
        ("a.wav", "", "too_short"),
        ("b.wav", "b", "too_short"),
    ]
    assert refused[0].reason == (
        "the recording's 20 frames at 10 Hz are shorter than audio.segment_seconds: 3, and audio.last_segment is drop"
    )
    assert refused[1].reason.startswith("the span's 4 frames")
    (lost,) = planned_samples([recording("a", 1, rate_hz=48_000)], AudioFormat(sample_rate_hz=8000))[1]
    assert lost.reason.endswith("leave no frame at 8000 Hz (audio.sample_rate)")


def test_the_key_of_a_rejection_is_empty_where_the_path_names_the_row():
    assert rejection_key(recording("a")) == ""
    assert rejection_key(recording("a", start_frame=1, stop_frame=5)) == "a"


def test_segments_of_a_recording_and_spans_of_a_file_are_ordered_together():
    rows = [recording("a"), recording("b", path="a.wav", start_frame=7, stop_frame=50, digest="d-excluded")]
    found = {sample.key: sample for sample in ordered_samples(planned_samples(rows, WHOLE)[0], WHOLE)}
    assert (found["a"].recording, found["a"].index) == ("a", 0)
    assert (found["b"].recording, found["b"].index, found["b"].digest) == ("a.wav", 7, "d")
    assert found["a"].audio != found["b"].audio


def test_the_json_has_the_users_metadata_and_the_origin():
    text = sample_json(recording("a", metadata={"title": "é", "headrace_x": 1}), Segment(1, 30, 30), ENCODED)
    assert "é" in text.decode()
    found = json.loads(text)
    assert found["title"] == "é"
    assert found["headrace"] == {
        "source": "a.wav",
        "source_sha256": "ab" * 32,
        "start_frame": 30,
        "num_frames": 90,
        "sample_rate": 16_000,
        "num_channels": 2,
    }


def test_the_json_of_a_span_and_of_fields_names_frames_and_files():
    files = tuple(FieldFile(name, f"{name}.wav", "cd" * 32, 7, 1, 1, recording().info) for name in ("mix", "voice"))
    row = recording("a", start_frame=5, stop_frame=9, fields=files)
    found = json.loads(sample_json(row, Segment(0, 0, 4), ENCODED, {"mix": ENCODED, "voice": ENCODED}))["headrace"]
    assert (found["start_frame"], found["stop_frame"], found["source_sample_rate"]) == (5, 9, 10)
    assert found["fields"]["voice"] == {"source": "voice.wav", "source_sha256": "cd" * 32, "num_channels": 2}
