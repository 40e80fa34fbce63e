"""The files of named audio fields are kept as JSON in each row."""

import json

import polars as pl

from headrace.catalog.rows.field_files import (
    digested_field_files,
    field_file_facts,
    field_files_json,
    files_of,
    parsed_field_files,
)
from headrace.catalog.rows.schemas import FILE_SCHEMA


def facts(path, **changes):
    audio = {"container": "WAV", "subtype": "PCM_16", "num_frames": 9, "sample_rate_hz": 10, "num_channels": 1}
    stamp = {"path": path, "num_bytes": 3, "mtime_ns": 4, "ctime_ns": 5, "sha256": f"digest of {path}"}
    return {**stamp, **audio, "bits_per_sample": 16, **changes}


TEXT = field_files_json(["mix", "voice"], [facts("m.wav"), facts("é.wav", num_channels=2)])


def test_files_are_read_back_in_the_order_of_the_fields():
    mix, voice = parsed_field_files(TEXT)
    assert [(one.name, one.path, one.sha256) for one in (mix, voice)] == [
        ("mix", "m.wav", "digest of m.wav"),
        ("voice", "é.wav", "digest of é.wav"),
    ]
    assert (voice.num_bytes, voice.mtime_ns, voice.ctime_ns, voice.info.num_channels) == (3, 4, 5, 2)
    assert "é" in TEXT
    assert parsed_field_files(None) == ()


def test_the_digest_covers_content_and_not_times():
    later = field_files_json(["mix"], [facts("m.wav", mtime_ns=9, ctime_ns=9, num_bytes=9)])
    same = field_files_json(["mix"], [facts("m.wav")])
    assert digested_field_files(later) == digested_field_files(same)
    for change in ({"sha256": "x"}, {"container": "FLAC"}, {"num_channels": 2}):
        assert digested_field_files(field_files_json(["mix"], [facts("m.wav", **change)])) != digested_field_files(same)
    assert digested_field_files(field_files_json(["voice"], [facts("m.wav")])) != digested_field_files(same)
    assert digested_field_files(None) == ""
    assert json.loads(digested_field_files(same))[0][:2] == ["mix", "m.wav"]


def test_each_file_that_rows_name_is_listed_once():
    rows = pl.DataFrame([facts("m.wav"), facts("m.wav"), facts("n.wav")], schema=FILE_SCHEMA)
    rows = rows.with_columns(pl.Series("field_files", [TEXT, TEXT, None], dtype=pl.String))
    assert field_file_facts(rows)["path"].to_list() == ["m.wav", "é.wav"]
    assert files_of(rows)["path"].to_list() == ["m.wav", "n.wav", "é.wav"]
    assert field_file_facts(rows.drop("field_files")).is_empty()
