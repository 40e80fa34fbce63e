"""Sidecars of recordings (`source.sidecars`), from the YAML to samples; what is read again, and what is rejected."""

import json
import os
import time

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.catalog.scanning import sidecars
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.sidecar_contents import SidecarFile, sidecar_contents, sidecars_json
from headrace.catalog.stored.header import read_header, read_stamps
from headrace.errors import ConfigError
from headrace.sources.source_changes import GradualListing, source_difference
from tests.support.yaml_corpora import YamlCorpus, rejected_codes

pytestmark = pytest.mark.medium

BOTH = {"sidecars": ["json", "txt"]}


@pytest.fixture
def corpus(tmp_path):
    made = YamlCorpus(tmp_path)
    made.put("m/a.wav", "b.wav", "c.d.wav")
    return made


@pytest.fixture
def opened(monkeypatch):
    """Paths of the sidecars that are read."""
    found, read = [], sidecars._read

    def recorded(source, file):
        found.append(file.path)
        return read(source, file)

    monkeypatch.setattr(sidecars, "_read", recorded)
    return found


def values(corpus, *names, **asked):
    return {row["path"]: tuple(row.get(name) for name in names) for row in corpus.rows(**BOTH | asked)}


@pytest.mark.parametrize(
    ("name", "text", "path", "expected"),
    [
        ("m/a.json", '{"x": 1}', "m/a.wav", (1, None)),
        ("m/a.wav.json", '{"x": 1}', "m/a.wav", (1, None)),
        ("m/a.txt", "Hello\nyou \r\n", "m/a.wav", (None, "Hello\nyou ")),
        ("m/a.TXT", "Hello", "m/a.wav", (None, "Hello")),
        ("m/a.JSON", '\ufeff{"x": 1, "txt": "t"}\n', "m/a.wav", (1, "t")),
        ("c.d.json", '{"x": [1, 2.5]}', "c.d.wav", ([1.0, 2.5], None)),
        ("c.d.wav.txt", "", "c.d.wav", (None, "")),
        ("b.json", '{"x": {"y": null}, "txt": null}', "b.wav", ({"y": None}, None)),
    ],
)
@pytest.mark.parametrize("samples", ["files", "rows"])
def test_values_are_columns_of_the_recording_beside_them(corpus, name, text, path, expected, samples):  # noqa: PLR0913, PLR0917 - a table of cases
    corpus.write(name, text)
    asked = {}
    if samples == "rows":
        corpus.write("t.csv", "path\nm/a.wav\nb.wav\nc.d.wav\n")
        asked = {"samples": "rows", "metadata": "t.csv"}
    assert corpus.rejects(**BOTH, **asked) == {}
    found = values(corpus, "x", "txt", **asked)
    assert found.pop(path) == expected
    assert set(found.values()) == {(None, None)}


def test_they_are_in_the_json_beside_a_table_and_are_no_found_files(corpus):
    corpus.write("t.csv", "path,title\nb.wav,B\n")
    for name in ("m/a", "b"):
        corpus.write(f"{name}.json", json.dumps({"speaker": name}))
    corpus.write("b.txt", "words")
    corpus.write("readme.txt", "beside no recording")
    scan = corpus.scan(**BOTH, metadata="t.csv")
    assert (scan.num_found, scan.num_sidecars_alone, rejected_codes(scan)) == (3, 1, {})
    corpus.sections["group_by"] = "speaker"
    found = corpus.samples(**BOTH, metadata="t.csv").values()
    said = {one["headrace"]["source"]: (one["title"], one["speaker"], one["txt"]) for one in found}
    assert said == {"b.wav": ("B", "b", "words"), "m/a.wav": (None, "m/a", None), "c.d.wav": (None, None, None)}


def test_the_longest_extension_decides(corpus):
    corpus.write("b.normalized.txt", "one two")
    corpus.write("b.txt", "1 2")
    corpus.write("b.meta.json", '{"n": 3}')
    asked = {"sidecars": ["txt", "normalized.txt", "meta.json"]}
    assert values(corpus, "txt", "normalized.txt", "n", **asked)["b.wav"] == ("1 2", "one two", 3)
    asked = {"sidecars": ["normalized.txt", "meta.json"]}
    assert values(corpus, "txt", "normalized.txt", "n", **asked)["b.wav"] == (None, "one two", 3)
    assert "b.txt" in corpus.rejects(**asked)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"b.json": "{"}, "its sidecar b.json is not valid JSON"),
        ({"b.json": '{"x": 1, "x": 2}'}, "its sidecar b.json is not valid JSON: an object has the name 'x' twice"),
        ({"b.json": "[1]"}, "its sidecar b.json is not an object of JSON"),
        ({"b.json": '{"x": "\\ud800"}'}, "its sidecar b.json has half of a surrogate pair"),
        ({"b.json": '{"\\u0000x": 1}'}, "its sidecar b.json has the name"),
        ({"b.txt": b"\xff"}, "its sidecar b.txt is not valid UTF-8 (byte 0)"),
        ({"b.json": '{"x": 1}', "b.wav.json": '{"x": 1}'}, "its sidecars b.json and b.wav.json both have 'x'"),
        ({"b.txt": "x", "b.json": '{"txt": "y"}'}, "its sidecars b.json and b.txt both have 'txt'"),
        ({"b.txt": "x" * 101}, "its sidecar b.txt has 101 bytes; at most 100 are read"),
    ],
)
@pytest.mark.parametrize("samples", ["files", "rows"])
def test_an_invalid_sidecar_rejects_its_recording_and_is_named(corpus, monkeypatch, files, reason, samples):
    monkeypatch.setattr(sidecars, "MOST_BYTES", 100)
    for name, text in files.items():
        corpus.write(name, text)
    asked = {}
    if samples == "rows":
        corpus.write("t.csv", "path\nm/a.wav\nb.wav\nc.d.wav\n")
        asked = {"samples": "rows", "metadata": "t.csv"}
    scan = corpus.scan(**BOTH, **asked)
    assert rejected_codes(scan) == {"bad_sidecar": 2 if asked else 1}
    assert scan.rejected["path"].unique().to_list() == ["b.wav"]
    assert reason in scan.rejected["reason"][0]
    assert scan.num_found == 3
    for name in files:
        (corpus.corpus / name).unlink()
    assert corpus.rejects(**BOTH, **asked) == {}


def test_values_of_different_kinds_are_an_error_that_names_both_sidecars(corpus):
    corpus.write("m/a.json", '{"x": 1}')
    corpus.write("b.json", '{"x": "one"}')
    with pytest.raises(ConfigError, match=r"column 'x' is .* in (m/a|b)\.json and .* in (m/a|b)\.json; write all"):
        corpus.scan(**BOTH)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"metadata": "t.csv"}, "source.sidecars: they have 'x', which the metadata table"),
        ({"path_columns": "{_}/{x}.wav"}, "source.sidecars: they have 'x', which"),
    ],
)
def test_a_column_that_is_there_already_is_an_error(corpus, asked, message):
    corpus.write("b.json", '{"x": 1}')
    corpus.write("t.csv", "path,x\nb.wav,1\n")
    with pytest.raises(ConfigError, match=message):
        corpus.scan(**BOTH, **asked)


@pytest.mark.parametrize("content", ["embed", "minimal"])
def test_a_changed_sidecar_rewrites_its_sample_alone(corpus, opened, content):
    corpus.sections["shards"] = {"samples_per_shard": 1}
    for name in ("m/a", "b"):
        corpus.write(f"{name}.json", json.dumps({"x": name}))
    asked = BOTH | {"json": content}
    assert len(corpus.build(**asked)) == 3
    assert sorted(opened) == ["b.json", "m/a.json"]
    opened.clear()
    assert corpus.build(**asked) == []
    assert opened == []  # the catalog has the contents
    corpus.write("b.json", json.dumps({"x": "other"}))
    assert len(corpus.build(**asked)) == (1 if content == "embed" else 0)
    assert opened == ["b.json"]
    assert values(corpus, "x", **asked)["b.wav"] == ("other",)


def is_changed(corpus, settle_seconds=0.0):
    config, storage = corpus.config(**BOTH), corpus.storage
    output = storage.output(config)
    known = read_stamps(output, read_header(output))
    listing = GradualListing(storage.source(config)).go_on(60)
    return source_difference(listing, known, settle_seconds, time.time_ns()).is_changed


def test_the_sensor_notices_a_sidecar_that_comes_changes_and_goes(corpus):
    corpus.scan(**BOTH)
    for name, text in (
        ("b.json", '{"x": 1}'),
        ("b.json", '{"x": 22}'),
        ("alone.txt", ""),
        ("b.txt", "{"),
        ("c.json", "["),
    ):
        assert not is_changed(corpus)
        corpus.write(name, text)
        assert is_changed(corpus)
        corpus.scan(**BOTH)
    assert not is_changed(corpus)
    (corpus.corpus / "b.json").unlink()
    assert is_changed(corpus)
    corpus.scan(**BOTH)
    assert not is_changed(corpus)


def test_a_recording_waits_for_a_sidecar_that_was_just_written(corpus):
    for path in corpus.corpus.rglob("*.wav"):
        os.utime(path, (1, 1))
    corpus.scan(**BOTH)
    corpus.write("b.json", '{"x": 1}')
    scan = corpus.scan(**BOTH, settle_seconds=3600)
    assert (scan.num_found, scan.num_recordings, scan.unsettled["path"].to_list()) == (3, 2, ["b.wav"])
    assert is_changed(corpus, 3600)  # the recording is not in the catalog
    os.utime(corpus.corpus / "b.json", (1, 1))
    scan = corpus.scan(**BOTH, settle_seconds=3600)
    assert (scan.num_recordings, scan.num_unsettled) == (3, 0)
    assert values(corpus, "x")["b.wav"] == (1,)


def test_a_scan_in_parts_gives_the_same_columns(corpus):
    for number in range(40):
        corpus.put(f"{number}.wav", num_frames=100)
        corpus.write(f"{number}.json", json.dumps({"n": number, "t": str(number)}))
    whole = values(corpus, "n", "t")
    corpus.runtime = ScanRuntime(table_bytes=200)
    assert values(corpus, "n", "t") == whole
    assert whole["7.wav"] == (7, "7")


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
FILES = st.builds(SidecarFile, TEXTS, *[st.integers(-(2**63), 2**63 - 1)] * 3, TEXTS)


@given(st.lists(FILES, unique_by=lambda file: file.path, max_size=4))
def test_stored_sidecars_are_read_again(files):
    texts = pl.Series([sidecars_json(files), None], dtype=pl.String)
    assert sorted(sidecar_contents(texts).rows()) == sorted(map(tuple, files))
