"""Columns of intervals (`source.table.types`), from every form of table to what a loader delivers."""

import csv
import json

import polars as pl
import pytest

from headrace import StreamingDataset
from headrace.assemble.column_sets import bring_columns_up_to_date
from headrace.catalog.tables.metadata_files import read_metadata
from headrace.config.tables import TableConfig
from headrace.errors import ConfigError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.snapshots.snapshots import read_snapshot
from tests.support.yaml_corpora import YamlCorpus, rejected_codes

WORDS = [[{"start": 0, "end": 1, "word": "ja"}, {"start": 1.5, "end": 2, "word": "so"}], [], None]
TYPES = {"types": {"words": "intervals"}}
FORMS = ("csv", "tsv", "jsonl", "json", "parquet", "text.parquet")


def write(folder, form, rows):
    """A table with the columns `path` and `words`."""
    file, paths = folder / f"t.{form}", [f"{name}.wav" for name in "abc"[: len(rows)]]
    texts = [None if row is None else json.dumps(row) for row in rows]
    objects = [{"path": path, "words": row} for path, row in zip(paths, rows, strict=True)]
    if form in {"csv", "tsv"}:
        with file.open("w", newline="") as lines:
            writer = csv.writer(lines, delimiter="," if form == "csv" else "\t")
            writer.writerows([("path", "words"), *zip(paths, texts, strict=True)])
    elif form == "jsonl":
        file.write_text("\n".join(map(json.dumps, objects)))
    elif form == "json":
        file.write_text(json.dumps(objects))
    else:
        pl.DataFrame({"path": paths, "words": rows if form == "parquet" else texts}, strict=False).write_parquet(file)
    return file


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_table_gives_one_type_and_the_same_values(tmp_path, form):
    found = read_metadata(write(tmp_path, form, WORDS), form=TableConfig(**TYPES))
    times = {"start": pl.Float64, "end": pl.Float64}
    assert found.schema["words"] == pl.List(pl.Struct({**times, "word": pl.String}))
    assert found["words"].to_list() == WORDS
    for nothing in ([None, None], [[], None]):
        empty = read_metadata(write(tmp_path, form, nothing), form=TableConfig(**TYPES))
        assert (empty.schema["words"], empty["words"].to_list()) == (pl.List(pl.Struct(times)), nothing)


def test_files_of_one_table_may_have_other_names_and_forms(tmp_path):
    corpus = YamlCorpus(tmp_path)
    corpus.put("a.wav", "b.wav")
    corpus.write("1.jsonl", '{"path": "a.wav", "words": [{"start": 0, "end": 1, "word": "ja"}]}')
    corpus.write("2.csv", 'path,words\nb.wav,"[{""speaker"": ""x"", ""end"": 0.5, ""start"": 0}]"\n')
    found = corpus.rows(metadata=["1.jsonl", "2.csv"], table=TYPES)
    assert [row["words"] for row in found] == [
        [{"start": 0, "end": 1, "word": "ja", "speaker": None}],
        [{"start": 0, "end": 0.5, "word": None, "speaker": "x"}],
    ]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "wrong",
    [
        [{"start": 2, "end": 1}],
        [{"start": -0.5, "end": 1}],
        [{"start": "0", "end": 1}],
        [{"start": True, "end": 1}],
        [{"start": None, "end": 1}],
        [{"start": 0}],
        [1],
        {"start": 0, "end": 1},
        "words",
    ],
)
def test_a_cell_that_is_no_intervals_is_an_error_with_its_line(tmp_path, form, wrong):
    file = write(tmp_path, form, [wrong])
    number = {"csv": "line 2", "tsv": "line 2", "jsonl": "line 1"}.get(form, "row 1")
    with pytest.raises(ConfigError) as caught:
        read_metadata(file, form=TableConfig(**TYPES))
    said = str(caught.value)
    assert f"{file}, {number}: column 'words': expected a list of {{start, end, …}}" in said
    assert not isinstance(wrong, list) or json.dumps(wrong[0]) in said


def test_lists_of_the_same_form_that_are_not_declared_are_json(tmp_path):
    table = pl.DataFrame({"path": ["a.wav"], "words": [[{"start": 2.0, "end": 1.0}]]})
    table.write_parquet(tmp_path / "t.parquet")
    found = read_metadata(tmp_path / "t.parquet")
    assert [field.name for field in found.schema["words"].inner.fields] == ["end", "start"]
    assert found["words"].to_list() == [[{"start": 2, "end": 1}]]


@pytest.fixture
def corpus(tmp_path):
    made = YamlCorpus(tmp_path)
    made.put("a.wav", "b.wav")
    return made


def built(corpus, **asked):
    """The metadata of each sample, as a loader delivers it, and the kinds of its columns."""
    corpus.build(**asked)
    config, output = corpus.config(**asked), corpus.storage.output(corpus.config(**asked))
    bring_columns_up_to_date(output, config)
    columns = fitting_columns(output.at("columns/metadata"), read_snapshot(output.at("audio")).snapshot)
    kinds = {spec.name: spec.kind for spec in columns.specs if not spec.is_fact}
    dataset = StreamingDataset(remote=output.uri, columns=["metadata"], batch_size=1)
    return {sample["__key__"].partition("-")[0]: sample["metadata"] for sample in dataset}, kinds


@pytest.mark.medium
@pytest.mark.parametrize("content", ["embed", "minimal"])
def test_loaders_deliver_them_as_lists(corpus, content):
    corpus.write("t.jsonl", '{"path": "a.wav", "words": [{"end": 0.5, "start": 0, "word": "ja"}]}')
    found, kinds = built(corpus, metadata="t.jsonl", table=TYPES, json=content)
    assert kinds == {"words": "intervals"}
    assert found["a"]["words"] == [{"start": 0.0, "end": 0.5, "word": "ja"}]
    assert found["b"]["words"] is None


@pytest.mark.medium
def test_sidecars_may_have_them_and_a_wrong_one_is_one_reject(corpus):
    corpus.put("c.wav")
    for name, end in (("a", 1), ("b", -1)):
        corpus.write(f"{name}.json", json.dumps({"words": [{"start": 0, "end": end}]}))
    asked = {"sidecars": ["json"], "table": TYPES}
    assert rejected_codes(corpus.scan(**asked)) == {"bad_sidecar": 1}
    assert "its sidecar b.json: column 'words': expected a list" in corpus.rejects(**asked)["b.wav"]
    found, kinds = built(corpus, **asked)
    assert (kinds, found["a"]["words"]) == ({"words": "intervals"}, [{"start": 0.0, "end": 1.0}])


def test_declared_types_of_sidecars_and_of_a_table_are_in_one_place(corpus):
    corpus.write("a.json", '{"n": 7}')
    corpus.write("t.csv", "path,age\na.wav,007\nb.wav,8\n")
    asked = {"sidecars": ["json"], "metadata": "t.csv", "table": {"types": {"n": "text", "age": "int"}}}
    assert [(row["age"], row["n"]) for row in corpus.rows(**asked)] == [(7, "7"), (8, None)]
    with pytest.raises(ValueError, match="table needs metadata"):
        corpus.config(table=TYPES)


@pytest.mark.medium
def test_a_change_of_the_declared_type_is_noticed(corpus):
    corpus.write("t.jsonl", '{"path": "a.wav", "words": [{"end": 0.5, "start": 0}]}')
    for types, kind in (({}, "json"), (TYPES["types"], "intervals"), ({"words": "json"}, "json")):
        assert built(corpus, metadata="t.jsonl", table={"types": types}, json="minimal")[1] == {"words": kind}
