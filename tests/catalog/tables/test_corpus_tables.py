"""The rows of a corpus as a table, and a metadata table that is joined to them by key."""

import pytest

from headrace.catalog.tables.corpus_tables import open_rows
from headrace.catalog.tables.metadata_files import in_memory
from headrace.config.source import SourceConfig
from headrace.errors import ConfigError
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
    with pytest.raises(ConfigError, match=r"metadata table of source\.uri x \(kind kaldi\): column 'a'"):
        open_rows(iter([{"path": "a", "a": 1}, {"path": "b", "a": "x"}]), KALDI)


def test_an_error_while_rows_are_read_is_not_one_of_the_temporary_folder():
    def rows():
        yield {"path": "a"}
        raise FileNotFoundError("text")

    with pytest.raises(FileNotFoundError, match="text"):
        open_rows(rows(), KALDI)


def test_a_column_with_a_name_that_is_taken_keeps_its_values():
    assert own_columns({"path": 1, "headrace": 2, "x": 3}, ["path"]) == {"own_path": 1, "own_headrace": 2, "x": 3}


def test_metadata_adds_columns_by_key_and_its_unknown_keys_are_rejected(kaldi):
    (kaldi / "more.csv").write_text("id,snr\nb,7\nc,8\n")
    found = build(kaldi, {"kind": "kaldi", "uri": "data", "metadata": "more.csv"})
    values = {key: (sample["metadata"]["text"], sample["metadata"]["snr"]) for key, sample in found.samples.items()}
    assert values == {"a": ("one", None), "b": ("two", 7)}
    assert found.scan.rejected.select("key", "code").rows() == [("c", "bad_name")]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ("id,text\na,x\n", "column 'text' is in the rows of the source"),
        ("id,snr\na,1\na,2\n", "the id 'a' is in several rows"),
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
