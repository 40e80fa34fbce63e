"""`headrace adopt` of one file: a table names the recordings of its folder, and a recording is no corpus."""

import json

import polars as pl
import pytest

from headrace.adopt.command import adopt
from headrace.config.dataset import load_config
from headrace.errors import ConfigError
from tests.support import layouts
from tests.support.corpora import write_sound

TEXTS = ["one", "two", "three"]


def write_table(file, rows):
    """A table in the form that its extension says."""
    if file.suffix == ".parquet":
        pl.DataFrame(rows).write_parquet(file)
    elif file.suffix == ".jsonl":
        file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pl.DataFrame(rows).write_csv(file, separator="\t" if file.suffix == ".tsv" else ",")


def write_corpus(root, name, cell):
    for number in range(3):
        write_sound(root / f"clips/c{number}.wav", number + 1)
    write_table(root / name, [{"file": cell.format(number), "text": text} for number, text in enumerate(TEXTS)])
    (root / "README.md").write_text("x")


def adopted(path, yaml, capsys):
    assert adopt([str(path), "--yaml", str(yaml), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found, load_config(yaml).source


@pytest.mark.medium
@pytest.mark.parametrize("name", ["utt.csv", "utt.tsv", "utt.jsonl", "utt.parquet"])
@pytest.mark.parametrize("cell", ["clips/c{}.wav", "c{}.wav", "c{}"], ids=["from the table", "from a folder", "name"])
def test_a_table_gives_the_yaml_of_its_folder(tmp_path, capsys, name, cell):
    write_corpus(tmp_path / "corpus", name, cell)
    of_folder, source = adopted(tmp_path / "corpus", tmp_path / "folder.yaml", capsys)
    found, own = adopted(tmp_path / "corpus" / name, tmp_path / "table.yaml", capsys)
    assert own == source
    assert {**found, "yaml": "", "output": ""} == {**of_folder, "yaml": "", "output": ""}
    assert [one["text"] for one in found["samples"]] == TEXTS
    assert found["faults"] == []


@pytest.mark.medium
@pytest.mark.parametrize(
    ("write", "name"),
    [
        (layouts.ljspeech, "metadata.csv"),
        (layouts.utterances, "utterances.csv"),
        (layouts.common_voice, "validated.tsv"),
        (layouts.wenet, "data.list"),
    ],
)
def test_tables_of_known_layouts_give_the_yaml_of_their_folder(tmp_path, capsys, write, name):
    write(tmp_path / "corpus")
    _, source = adopted(tmp_path / "corpus", tmp_path / "folder.yaml", capsys)
    found, own = adopted(tmp_path / "corpus" / name, tmp_path / "table.yaml", capsys)
    assert (own.metadata, own.columns, own.table, own.samples) == (
        source.metadata,
        source.columns,
        source.table,
        source.samples,
    )
    assert (found["faults"], len(found["samples"])) == ([], 5)


@pytest.mark.medium
@pytest.mark.parametrize(
    ("write", "name"),
    [
        (layouts.common_voice, "test.tsv"),
        (layouts.librispeech, "84/0/84-0.trans.txt"),
        (layouts.audiofolder, "test/metadata.csv"),
        (layouts.raven, None),
    ],
)
def test_only_the_table_that_was_named_is_read(tmp_path, capsys, write, name):
    write(tmp_path / "corpus")
    table = tmp_path / "corpus" / name if name else next((tmp_path / "corpus").glob("*.txt"))
    found, source = adopted(table, tmp_path / "table.yaml", capsys)
    assert source.metadata == (str(table),)
    assert source.uri == str(table.parent)
    assert found["faults"] == []
    assert found["samples"]


@pytest.mark.medium
def test_sidecars_beside_the_recordings_of_a_table_are_read(tmp_path, capsys):
    write_corpus(tmp_path / "corpus", "utt.csv", "clips/c{}.wav")
    for number in range(3):
        (tmp_path / f"corpus/clips/c{number}.json").write_text(json.dumps({"tag": number}))
    _, source = adopted(tmp_path / "corpus/utt.csv", tmp_path / "table.yaml", capsys)
    assert source.sidecars == ("json",)


def test_a_recording_is_an_error_that_names_its_folder(tmp_path):
    write_sound(tmp_path / "corpus/a.wav", 1)
    with pytest.raises(ConfigError, match=r"a\.wav: is one recording.*headrace adopt .*/corpus$"):
        adopt([str(tmp_path / "corpus/a.wav"), "--yaml", str(tmp_path / "mine.yaml")])
    assert not (tmp_path / "mine.yaml").exists()


@pytest.mark.parametrize("name", ["utt.csv", "utt.tsv", "utt.jsonl", "utt.parquet"])
def test_a_table_away_from_its_recordings_is_an_error_that_says_so(tmp_path, name):
    write_corpus(tmp_path / "corpus", name, "c{}.wav")
    (tmp_path / "corpus/tables").mkdir()
    table = (tmp_path / "corpus" / name).rename(tmp_path / "corpus/tables" / name)
    with pytest.raises(ConfigError, match=r"names no recording below .*/corpus/tables: adopt the folder that has both"):
        adopt([str(table), "--yaml", str(tmp_path / "mine.yaml")])


def test_nothing_is_written_below_the_folder_of_a_table(tmp_path):
    write_corpus(tmp_path / "corpus", "utt.csv", "clips/c{}.wav")
    with pytest.raises(ConfigError, match="where nothing is written"):
        adopt([str(tmp_path / "corpus/utt.csv"), "--yaml", str(tmp_path / "corpus/mine.yaml")])
