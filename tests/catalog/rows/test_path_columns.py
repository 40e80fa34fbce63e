"""Columns that the paths of recordings give (`source.path_columns`), from the YAML to samples."""

import pytest

from headrace.errors import ConfigError
from tests.support.yaml_corpora import YamlCorpus

TEMPLATE = "{speaker}/{_}/{take 1}.wav"


@pytest.fixture
def corpus(tmp_path):
    made = YamlCorpus(tmp_path)
    made.put("007/x/a.wav", "007/x/b.wav", "ä+/y/c.wav", "other.wav")
    return made


def test_columns_are_text_nulls_without_a_match_and_counted(corpus):
    scan = corpus.scan(path_columns=TEMPLATE)
    found = {row["path"]: (row["speaker"], row["take 1"]) for row in scan.recordings.to_dicts()}
    assert found == {
        "007/x/a.wav": ("007", "a"), "007/x/b.wav": ("007", "b"), "ä+/y/c.wav": ("ä+", "c"), "other.wav": (None, None)
    }  # fmt: skip
    assert scan.num_other_paths == 1


def test_they_are_in_the_json_beside_those_of_the_table_and_may_be_groups(corpus):
    corpus.write("t.csv", "path,v\n007/x/a.wav,1\n")
    corpus.sections["group_by"] = "speaker"
    samples = corpus.samples(path_columns=TEMPLATE, metadata="t.csv")
    said = sorted((sample["headrace"]["source"], sample["speaker"], sample["v"]) for sample in samples.values())
    assert said == [
        ("007/x/a.wav", "007", 1), ("007/x/b.wav", "007", None), ("other.wav", None, None), ("ä+/y/c.wav", "ä+", None)
    ]  # fmt: skip
    corpus.sections["group_by"] = "_"
    with pytest.raises(ConfigError, match="group_by"):
        corpus.scan(path_columns=TEMPLATE)


def test_rows_have_the_columns_of_their_recording(corpus):
    corpus.write("t.csv", "path,start,end\n007/x/a.wav,0,0.01\n007/x/a.wav,0.02,0.03\nother.wav,0,0.01\n")
    scan = corpus.scan(path_columns=TEMPLATE, metadata="t.csv", samples="rows")
    assert scan.recordings["speaker"].to_list() == ["007", "007", None]
    assert scan.num_other_paths == 1


@pytest.mark.medium
def test_another_template_rewrites_samples_but_not_with_minimal_json(corpus):
    assert len(corpus.build(path_columns="{a}/{_}/{_}.wav")) == 1
    assert len(corpus.build(path_columns="{b}/{_}/{_}.wav")) == 1
    assert len(corpus.build(path_columns="{b}/{_}/{_}.wav", json="minimal")) == 1
    assert corpus.build(path_columns="{c}/{_}/{_}.wav", json="minimal") == []


def test_a_column_that_the_table_has_too_is_an_error(corpus):
    corpus.write("t.csv", "path,speaker\n007/x/a.wav,1\n")
    with pytest.raises(ConfigError, match=r"source\.path_columns: the metadata table has a column 'speaker' too"):
        corpus.scan(path_columns=TEMPLATE, metadata="t.csv")


def test_an_own_name_of_the_catalog_is_escaped_as_in_tables(corpus):
    (row, *_) = corpus.samples(path_columns="{key}/{_}/{path}.wav").values()
    assert {"key", "path"} <= row.keys()
