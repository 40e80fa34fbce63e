"""Rows that are made of a column of intervals (`source.rows`), of tables and of sidecars, from the YAML to samples."""

import json

import polars as pl
import pytest

from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.tables import interval_rows
from headrace.catalog.tables.interval_rows import IntervalRows
from headrace.catalog.tables.metadata_files import TableInMemory
from headrace.errors import ConfigError
from tests.support.yaml_corpora import YamlCorpus, rejected_codes

TURNS = {
    "a": [{"start": 0, "end": 0.02, "text": "ja"}, {"start": 0.03, "end": 0.05, "text": "so"}],
    "b": [{"start": 0.01, "end": 0.02, "text": "na"}],
}
SPANS = {("a", 0, 160, "ja"), ("a", 240, 400, "so"), ("b", 80, 160, "na")}


@pytest.fixture
def corpus(tmp_path):
    made = YamlCorpus(tmp_path)
    made.put("a.wav", "b.wav")
    return made


def table(corpus, **more):
    rows = [{"path": f"{name}.wav", "turns": turns, "text": "whole", **more} for name, turns in TURNS.items()]
    corpus.write("t.jsonl", "\n".join(map(json.dumps, rows)))
    return {"metadata": "t.jsonl", "rows": "turns"}


def sidecars(corpus):
    for name, turns in TURNS.items():
        corpus.write(f"{name}.json", json.dumps({"turns": turns, "speaker": f"speaker of {name}"}))
    return {"sidecars": ["json"], "rows": "turns"}


def spans(samples):
    return {
        (
            about["headrace"]["source"][0],
            about["headrace"]["start_frame"],
            about["headrace"]["stop_frame"],
            about["text"],
        )
        for about in samples.values()
    }


@pytest.mark.medium
@pytest.mark.parametrize("of", [table, sidecars])
def test_each_interval_is_a_sample_with_its_names_as_columns(corpus, of):
    asked = of(corpus)
    assert corpus.scan(**asked).rejected.is_empty()
    found = corpus.samples(**asked)
    assert spans(found) == SPANS
    assert all("turns" not in about for about in found.values())
    if of is sidecars:
        assert {about["speaker"] for about in found.values()} == {"speaker of a", "speaker of b"}


@pytest.mark.medium
@pytest.mark.parametrize("of", [table, sidecars])
def test_a_changed_interval_is_one_changed_row(corpus, of):
    asked = of(corpus)
    before = {row["recording_digest"] for row in corpus.scan(**asked).recordings.to_dicts()}
    TURNS["b"][0]["text"] = "no"
    try:
        of(corpus)
        after = {row["recording_digest"] for row in corpus.scan(**asked).recordings.to_dicts()}
    finally:
        TURNS["b"][0]["text"] = "na"
    assert len(before & after) == 2
    assert len(after - before) == 1


def test_rows_of_sidecars_keep_their_content_once(corpus):
    asked = sidecars(corpus)
    corpus.scan(**asked)
    found = existing_catalog(corpus.storage.output(corpus.config(**asked))).recordings(["path", "sidecars"])
    assert sorted(found.drop_nulls()["path"]) == ["a.wav", "b.wav"]


@pytest.mark.medium
def test_a_recording_without_intervals_and_one_with_an_invalid_sidecar_are_rejected(corpus):
    asked = sidecars(corpus)
    corpus.put("c.wav", "d.wav", "e.wav")
    corpus.write("c.json", '{"turns": []}')
    corpus.write("d.json", '{"turns": [{"start": 2, "end": 1}]}')
    corpus.write("e.json", "no JSON")
    scan = corpus.scan(**asked)
    rejected = {(row["path"], row["origin"], row["code"]) for row in scan.rejected.to_dicts()}
    assert {
        ("c.wav", "file", "no_row"),
        ("d.wav", "metadata", "bad_sidecar"),
        ("e.wav", "metadata", "bad_sidecar"),
    } <= rejected
    assert scan.num_recordings == 3


@pytest.mark.medium
def test_an_interval_outside_of_its_recording_is_one_reject(corpus):
    corpus.write("t.jsonl", '{"path": "a.wav", "turns": [{"start": 0, "end": 0.02}, {"start": 9, "end": 10}]}')
    (corpus.corpus / "b.wav").unlink()
    scan = corpus.scan(metadata="t.jsonl", rows="turns")
    assert (rejected_codes(scan), scan.num_recordings) == ({"outside_recording": 1}, 1)


BAD_TURNS = {
    "outside": ({"start": 9, "end": 10}, "begins at 9.0 s"),
    "too long": ({"start": 0, "end": 3}, "ends at 3.0 s"),
    "empty": ({"start": 0.01, "end": 0.01}, "has an empty span"),
}
PLACES = {
    "a sidecar": ({"sidecars": ["json"]}, ["a.json"], "interval 2 of a.json "),
    "one of two sidecars": ({"sidecars": ["txt", "json"]}, ["a.txt", "a.json"], "interval 2 of a.json "),
    "a table": ({"metadata": "t.jsonl"}, ["t.jsonl"], "interval 2 of line 2 of "),
    "one of two tables": ({"metadata": ["t.jsonl", "u.jsonl"]}, ["t.jsonl", "u.jsonl"], "interval 2 of line 2 of "),
}


@pytest.mark.parametrize(("asked", "names", "place"), PLACES.values(), ids=PLACES)
@pytest.mark.parametrize(("turn", "said"), BAD_TURNS.values(), ids=BAD_TURNS)
def test_reasons_name_the_interval_and_where_it_is_written(corpus, asked, names, place, turn, said):  # noqa: PLR0913, PLR0917
    turns = [{"start": 0, "end": 0.01}, turn]
    lines = [{"path": "b.wav", "turns": turns[:1]}, {"path": "a.wav", "turns": turns}]
    contents = {"a.json": json.dumps({"turns": turns}), "a.txt": "text", "u.jsonl": json.dumps(lines[0])}
    for name in names:
        corpus.write(name, contents.get(name, "\n".join(map(json.dumps, lines))))
    (corpus.corpus / "b.wav").unlink()
    reasons = [
        row["reason"] for row in corpus.scan(rows="turns", **asked).rejected.to_dicts() if row["path"] == "a.wav"
    ]
    assert len(reasons) == 1
    assert reasons[0].startswith(place)
    assert said in reasons[0]
    assert "metadata table" not in reasons[0]


def test_a_recording_without_intervals_is_said_to_have_none_in_its_sidecars(corpus):
    asked = sidecars(corpus)
    corpus.put("c.wav")
    assert corpus.rejects(**asked)["c.wav"] == "no sidecar of it has an interval in column 'turns' (source.rows)"


@pytest.mark.medium
def test_reasons_name_the_line_of_the_table(corpus):
    table(corpus)
    corpus.write("u.jsonl", '\n{"path": "c.wav", "turns": [{"start": 0, "end": 1, "text": "x"}]}')
    reasons = corpus.rejects(metadata=["t.jsonl", "u.jsonl"], rows="turns")
    assert "line 2 of" in reasons["c.wav"]
    assert "u.jsonl names no file" in reasons["c.wav"]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ('{"path": "a.wav", "words": []}', "there is no column 'turns'"),
        ('{"path": "a.wav", "turns": [], "start": 0}', "the rows have a column 'start'"),
        ('{"path": "a.wav", "turns": [{"start": 0, "end": 1, "path": "x"}]}', "the intervals have a name 'path'"),
    ],
)
def test_rows_that_cannot_be_made_are_an_error(corpus, line, said):
    corpus.write("t.jsonl", line)
    with pytest.raises(ConfigError, match=said):
        corpus.scan(metadata="t.jsonl", rows="turns")
    corpus.write("a.json", line)
    if "'path'" in said or "no column" in said:
        with pytest.raises(ConfigError, match=said):
            corpus.scan(sidecars=["json"], rows="turns")


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"rows": "turns"}, "samples: rows needs metadata"),
        ({"rows": "turns", "metadata": "t.csv", "samples": "files"}, "rows: turns makes samples of rows"),
        ({"rows": "turns", "metadata": "t.csv", "table": {"types": {"turns": "json"}}}, "table.types says json"),
    ],
)
def test_the_yaml_says_what_rows_needs(corpus, asked, said):
    with pytest.raises(ConfigError, match=said):
        corpus.config(**asked)


def test_rows_that_would_repeat_a_long_list_are_an_error_that_names_it(monkeypatch):
    monkeypatch.setattr(interval_rows, "_MOST_REPEATED", 2_000_000)
    times = [{"start": float(number), "end": number + 1.0} for number in range(3000)]
    whole = pl.DataFrame({"path": ["a.wav", "b.wav"], "turns": [times, times[:1]], "words": [times[:2000], times]})
    rows = IntervalRows.of(TableInMemory(whole), "turns", "path", ())
    with pytest.raises(
        ConfigError,
        match="each of the 3000 rows of a recording would repeat the 2000 entries of its "
        "column 'words'; take the column out",
    ):
        list(rows.batches())
    short = IntervalRows.of(TableInMemory(whole.with_columns(pl.col("words").list.head(3))), "turns", "path", ())
    assert sum(map(len, short.batches())) == 3001
