"""Paths of rows: templates, and paths relative to the folder of the table's file; from the YAML to the recordings."""

import pytest

from headrace.errors import ConfigError
from tests.support.yaml_corpora import YamlCorpus


@pytest.fixture
def corpus(tmp_path):
    return YamlCorpus(tmp_path)


@pytest.mark.medium
def test_librispeech_is_read_as_it_comes(corpus):
    for chapter in ("84/121123", "84/121550"):
        speaker, number = chapter.split("/")
        names = [f"{speaker}-{number}-000{utterance}" for utterance in range(2)]
        corpus.put(*(f"{chapter}/{name}.wav" for name in names))
        corpus.write(f"{chapter}/{speaker}-{number}.trans.txt", "".join(f"{name} GO {name}\n" for name in names))
    table = {"delimiter": " ", "header": ["utt", "text"]}
    asked = {"metadata": "**/*.trans.txt", "table": table, "columns": {"path": "{utt}.wav"}}
    rows = corpus.rows(**asked)
    assert [row["path"] for row in rows] == [
        f"84/{c}/84-{c}-000{u}.wav" for c in (121123, 121550) for u in (0, 1)
    ]  # fmt: skip
    assert all(row["text"] == f"GO {row['utt']}" for row in rows)
    assert corpus.rejects(**asked) == {}  # the tables are no recordings
    assert corpus.rows(**asked | {"columns": {"path": "{_folder}/{utt}.wav"}}) == rows
    samples = corpus.samples(**asked)
    assert sorted(sample["text"] for sample in samples.values()) == sorted(row["text"] for row in rows)


def test_ljspeech_is_read_as_it_comes(corpus):
    corpus.put("wavs/LJ001-0001.wav", "wavs/LJ001-0002.wav")
    corpus.write("metadata.csv", 'LJ001-0001|He said "no|he said no\nLJ001-0002|"Well|well\n')
    table = {"delimiter": "|", "header": ["id", "text", "normalized"], "quotes": "none"}
    rows = corpus.rows(metadata="metadata.csv", table=table, columns={"path": "wavs/{id}.wav"})
    assert [(row["path"], row["id"], row["text"]) for row in rows] == [
        ("wavs/LJ001-0001.wav", "LJ001-0001", 'He said "no'), ("wavs/LJ001-0002.wav", "LJ001-0002", '"Well')
    ]  # fmt: skip


def test_an_audiofolder_has_a_table_in_each_folder(corpus):
    corpus.put("train/a.wav", "test/a.wav", "test/sub/b.wav")
    corpus.write("train/metadata.csv", "file_name,label\na.wav,1\n")
    corpus.write("test/metadata.csv", "file_name,label\na.wav,2\nsub/b.wav,3\n")
    rows = corpus.rows(metadata="*/metadata.csv", columns={"path": "file_name"})
    assert {row["path"]: row["label"] for row in rows} == {"test/a.wav": 2, "test/sub/b.wav": 3, "train/a.wav": 1}


CASES = [  # files of the corpus, the table's place, path in the row, template, the file that is found
    (["m/a.wav"], "corpus/m/t.csv", "a.wav", "{path}", "m/a.wav"),
    (["a.wav"], "corpus/m/t.csv", "a.wav", "{path}", "a.wav"),
    (["m/a.wav"], "corpus/m/t.csv", "m/a.wav", "path", "m/a.wav"),
    (["m/a.wav"], "corpus/m/t.csv", "a.wav", "path", "m/a.wav"),
    (["a.wav"], "corpus/m/t.csv", "../a.wav", "path", "a.wav"),
    (["a.wav"], "corpus/t.csv", "./a.wav", "path", "a.wav"),
    (["m/é.wav"], "corpus/m/t.csv", "é.wav", "path", "m/é.wav"),  # another spelling of the accent
    (["a.wav"], "t.csv", "corpus/a.wav", "path", "a.wav"),  # the table is above the source
    (["a.wav"], "other/t.csv", "a.wav", "path", "a.wav"),
    (["m/a.wav"], "corpus/m/n/t.csv", "m/a.wav", "path", "m/a.wav"),
    (["t/a.wav"], "corpus/m/t.csv", "a", "{_stem}/{path}.wav", "t/a.wav"),
    (["x/m/a.wav"], "corpus/m/t.csv", "a.wav", "x/{_folder}/{path}", "x/m/a.wav"),
    (["x/o/a.wav"], "other/o/t.csv", "a.wav", "x/{_folder}/{path}", "x/o/a.wav"),
    (["a.wav"], "corpus/t.csv", "a.wav", "{_folder}/{path}", "a.wav"),
    (["a 007.wav"], "corpus/t.csv", "007", "a {path}.wav", "a 007.wav"),
]


@pytest.mark.parametrize(
    ("files", "place", "path", "template", "expected", "samples"),
    [(*case, samples) for number, case in enumerate(CASES) for samples in [("files", "rows")[number % 2]]]
    + [(*CASES[0], "rows"), (*CASES[1], "files")],
)
def test_paths_are_tried_below_the_table_then_below_the_source(corpus, files, place, path, template, expected, samples):  # noqa: PLR0913, PLR0917 - a table of cases
    corpus.put(*files)
    corpus.write(f"../{place}", f"path,v\n{path},found\n")
    metadata = str(corpus.folder / place)
    asked = {"metadata": metadata, "samples": samples, "columns": {"path": template}}
    assert [(row["path"], row["v"]) for row in corpus.rows(**asked)] == [(expected, "found")]


@pytest.mark.parametrize("path", ["a.wav", "{name}.wav"])
def test_a_path_that_names_two_files_is_an_error_that_names_both(corpus, path):
    corpus.put("a.wav", "m/a.wav")
    corpus.write("m/t.csv", f"{'name' if '{' in path else path},path\n{'a' if '{' in path else 'x'},a.wav\n")
    columns = {"path": path} if "{" in path else {"path": "path"}
    with pytest.raises(ConfigError, match=r"row 1: the path 'a\.wav' names two files, m/a\.wav .* and a\.wav"):
        corpus.rows(metadata="m/t.csv", columns=columns)


def test_a_template_without_a_value_or_of_an_unknown_column(corpus):
    corpus.put("a.wav")
    corpus.write("t.csv", "id,v\na,1\n,2\n")
    rejects = corpus.rejects(metadata="t.csv", columns={"path": "{id}.wav"})
    assert rejects == {"": "row 2 of the metadata table has no path"}
    with pytest.raises(ConfigError, match="has no column 'name'"):
        corpus.rows(metadata="t.csv", columns={"path": "{name}.wav"})


def test_rejects_of_several_files_name_line_and_file(corpus):
    corpus.put("a.wav", "b.wav")
    corpus.write("m/1.csv", "path,start,key\na.wav,0,k\ngone.wav,0,l\n")
    corpus.write(
        "m/2.jsonl", '\n{"path": "b.wav", "start": 0, "key": "k"}\n{"path": "b.wav", "start": 9, "key": "m"}\n'
    )
    reasons = sorted(corpus.scan(metadata="m/*", samples="rows", columns={"key": "key"}).rejected["reason"].to_list())
    folder = f"{corpus.corpus}/m"
    assert [reason.split("; ")[0] for reason in reasons if reason.startswith("line")] == [
        f"line 2 of {folder}/2.jsonl has the key 'k', which line 2 of {folder}/1.csv already has: keys must differ",
        f"line 3 of {folder}/1.csv names no file of the source",
        f"line 3 of {folder}/2.jsonl begins at 9.0 s, but b.wav ends at 0.05 s",
    ]
    corpus.write("m/2.jsonl", '{"path": "a.wav", "start": 1, "key": "k"}\n')
    with pytest.raises(ConfigError, match=rf"\(line 2 of {folder}/1.csv, line 1 of {folder}/2.jsonl differ in start\)"):
        corpus.scan(metadata=["m/1.csv", "m/2.jsonl"])
