"""The rows of a corpus as a table, and a metadata table that is joined to them by key."""

import json

import pytest

from headrace.catalog.tables.corpus_tables import open_rows
from headrace.catalog.tables.metadata_files import in_memory
from headrace.config.source import SourceConfig
from headrace.errors import ConfigError
from headrace.source_kinds import ROW_PLACE
from headrace.sources.corpus_rows import LEFT_OUT, own_columns
from tests.support.corpora import build, write_sound

KALDI = SourceConfig(uri="x", kind="kaldi")


@pytest.fixture
def kaldi(tmp_path):
    for seed, name in enumerate("ab"):
        write_sound(tmp_path / f"data/{name}.wav", seed)
    (tmp_path / "data/wav.scp").write_text("a a.wav\nb b.wav\n")
    (tmp_path / "data/text").write_text("a one\nb two\n")
    return tmp_path


def test_rows_have_one_schema_and_those_that_are_left_out_are_counted():
    table = open_rows(iter([{"path": "a", "id": "1", "snr": 1}, LEFT_OUT, {"path": "b", "id": "2", "snr": 2.5}]), KALDI)
    assert in_memory(table).rows() == [("a", "1", 1.0), ("b", "2", 2.5)]
    assert table.num_left_out == 1


def test_a_corpus_without_rows_and_values_of_several_kinds_are_errors():
    with pytest.raises(ConfigError, match="the kaldi corpus has no row"):
        open_rows(iter([]), KALDI)
    with pytest.raises(ConfigError, match=r"rows of source\.uri x \(kind kaldi\): column 'a'"):
        open_rows(iter([{"path": "a", "a": 1}, {"path": "b", "a": "x"}]), KALDI)


def test_an_error_while_rows_are_read_is_not_one_of_the_temporary_folder():
    def rows():
        yield {"path": "a"}
        raise FileNotFoundError("text")

    with pytest.raises(FileNotFoundError, match="text"):
        open_rows(rows(), KALDI)


def test_a_column_with_a_name_that_is_taken_keeps_its_values():
    assert own_columns({"path": 1, "headrace": 2, "x": 3}, ["path"]) == {"own_path": 1, "own_headrace": 2, "x": 3}


@pytest.mark.parametrize("taken", [(), ("id",), ("id", "path"), ("path", "own_path", "id"), ("own_own_id", "id")])
def test_no_two_names_become_one_nor_one_that_is_taken(taken):
    names = [f"{'own_' * count}{name}" for name in ("id", "path", "headrace", "x") for count in range(4)]
    found = own_columns({name: name for name in names}, taken)
    assert len(found) == len(names)
    assert not found.keys() & {*taken, "headrace"}
    assert all(own_columns({name: 1}, taken).keys() <= found.keys() for name in names)  # the same in each row


@pytest.mark.medium
def test_metadata_adds_columns_by_key_and_its_unknown_keys_are_rejected(kaldi):
    (kaldi / "more.csv").write_text("id,snr\nb,7\nc,8\n")
    found = build(kaldi, {"kind": "kaldi", "uri": "data", "metadata": "more.csv"})
    values = {key: (sample["metadata"]["text"], sample["metadata"]["snr"]) for key, sample in found.samples.items()}
    assert values == {"a": ("one", None), "b": ("two", 7)}
    assert found.scan.rejected.select("key", "code").rows() == [("c", "bad_name")]


@pytest.mark.medium
@pytest.mark.parametrize(
    ("more", "faults"),
    [
        (
            {"more.csv": "id,snr\nb,7\nzz,8\n"},
            {"line 3 of {}/more.csv has the key 'zz', which no row of the source has"},
        ),
        (
            {"more.csv": "id,snr\n,7\nb,8\n"},
            {"line 2 of {}/more.csv has no key in column 'id', so that it belongs to no row of the source"},
        ),
        (
            {"1.jsonl": '{"id": "b", "snr": 1, "start": -1}\n', "2.jsonl": '\n{"id": null, "snr": 1}\n{"snr": 2}\n'},
            {
                "line 2 of {}/2.jsonl has no key in column 'id', so that it belongs to no row of the source",
                "line 3 of {}/2.jsonl has no key in column 'id', so that it belongs to no row of the source",
            },
        ),
        (
            {"more.json": '[{"id": "zz", "start": 5}, {"id": "", "start": 6}]'},
            {
                "row 1 of {}/more.json has the key 'zz', which no row of the source has",
                "row 2 of {}/more.json has no key in column 'id', so that it belongs to no row of the source",
            },
        ),
    ],
)
def test_each_row_of_the_metadata_that_belongs_to_no_row_is_rejected_with_its_line(kaldi, more, faults):
    for name, text in more.items():
        (kaldi / name).write_text(text)
    found = build(kaldi, {"kind": "kaldi", "uri": "data", "metadata": list(more)})
    lost = found.scan.rejected.filter(found.scan.rejected["path"] == "")
    assert set(lost["reason"]) == {fault.format(kaldi) for fault in faults}
    assert set(lost["code"]) == {"bad_name"}


PLACED = {ROW_PLACE: "line 3 of m.json", "path": "a"}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"path": "a"}, {"path": "b", "id": "u2"}, "is a number in the row of a and text in the row of b (id 'u2')"),
        ({"id": "u1"}, {"id": "u2"}, "is a number in the row (id 'u1') and text in the row (id 'u2')"),
        (
            PLACED,
            {**PLACED, ROW_PLACE: "line 1 of n.json"},
            "is a number in line 3 of m.json and text in line 1 of n.json",
        ),
    ],
)
def test_values_of_two_kinds_name_both_rows_and_a_way_out_that_works(first, second, said):
    rows = [{"path": None, "v": None}, LEFT_OUT, {**first, "v": 1}, {**second, "v": "x"}]
    with pytest.raises(ConfigError) as raised:
        open_rows(iter(rows), KALDI)
    assert said in str(raised.value)
    assert "`types: {v: text}` of the table (source.table)" in str(raised.value)
    for more in ({}, {"metadata": "m.csv"}):
        source = SourceConfig(uri="x", kind="kaldi", table={"types": {"v": "text"}}, **more)
        assert in_memory(open_rows(iter(rows), source))["v"].to_list() == [None, "1", "x"]


def test_a_value_that_does_not_fit_its_type_names_its_row():
    source = SourceConfig(uri="x", kind="nemo", table={"types": {"v": "int"}})
    with pytest.raises(ConfigError, match=r"\(kind nemo\), line 3 of m\.json: column 'v': expected a whole number"):
        open_rows(iter([LEFT_OUT, {**PLACED, "v": "x"}]), source)
    with pytest.raises(ConfigError, match=r"there is no column 'v'; the columns are path$"):
        open_rows(iter([PLACED]), source)


@pytest.mark.medium
def test_types_of_rows_and_of_their_metadata_are_in_one_section(kaldi):
    (kaldi / "more.csv").write_text("id,snr\na,7\nb,8\n")
    types = {"snr": "text", "text": "json"}
    (kaldi / "data/text").write_text("a 1\nb 2\n")
    with pytest.raises(ConfigError, match=r"types: there is no column 'other'"):
        build(kaldi, {"kind": "kaldi", "uri": "data", "metadata": "more.csv", "table": {"types": {"other": "int"}}})
    found = build(kaldi, {"kind": "kaldi", "uri": "data", "metadata": "more.csv", "table": {"types": types}})
    assert {key: sample["metadata"]["snr"] for key, sample in found.samples.items()} == {"a": "7", "b": "8"}


@pytest.mark.medium
def test_a_reject_names_the_row_by_line_and_file_or_by_path_and_key(tmp_path):
    write_sound(tmp_path / "a.wav", 1)
    for name, good in (("m1", 0.01), ("m2", 0.02)):
        row = {"audio_filepath": "a.wav", "in": name}
        rows = [{**row, "duration": 8, "_skipme": 1}, {**row, "duration": 9}, {**row, "duration": good}]
        (tmp_path / f"{name}.json").write_text("\n".join(map(json.dumps, rows)))
    found = build(tmp_path, {"kind": "nemo", "uri": str(tmp_path / "*.json")})
    names = [f"line 2 of {tmp_path}/{name}.json" for name in ("m1", "m2")]
    assert [reason.partition(" ends")[0] for reason in found.reasons] == names
    (tmp_path / "wav.scp").write_text("u1 a.wav\nu2 none.wav\n")
    found = build(tmp_path, {"kind": "kaldi", "uri": str(tmp_path)})
    (of_row,) = (reason for reason in found.reasons if "the row" in reason)
    assert of_row.startswith("the row of none.wav (key 'u2') names ")


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("id,text\na,x\n", "column 'text' is in the rows of the source"),
        ("id,snr\na,1\na,2\n", r"the id 'a' is in line 2 of .*/more\.csv and in line 3 of .*/more\.csv"),
        ("key,snr\na,1\n", "has no column 'id'"),
    ],
)
def test_a_table_that_cannot_be_joined_is_an_error(kaldi, table, said):
    (kaldi / "more.csv").write_text(table)
    with pytest.raises(ConfigError, match=said):
        build(kaldi, {"kind": "kaldi", "uri": "data", "metadata": "more.csv"})


def test_metadata_needs_a_key():
    with pytest.raises(ValueError, match=r"metadata needs columns\.key"):
        SourceConfig(uri="x", kind="nemo", metadata="m.csv")
