"""Folders as labels: which column each level of folders is, and which get numbers."""

import pytest

from headrace.adopt.folders import labels, plain
from headrace.adopt.listing import listed


def found(tmp_path, *names, recognise=labels):
    for name in names:
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    layout = recognise(listed(tmp_path))
    return None if layout is None else (dict(layout.source), layout.group_by)


@pytest.mark.parametrize(
    ("names", "source", "group_by"),
    [
        (("crow/1.wav", "owl/1.wav"), {"path_columns": "{label}/{_}", "labels": ["label"]}, ""),
        (("x/crow/1.wav", "x/owl/1.wav"), {"path_columns": "x/{label}/{_}", "labels": ["label"]}, ""),
        (("train/crow/1.wav", "test/owl/1.wav"), {"path_columns": "{part}/{label}/{_}", "labels": ["label"]}, ""),
        (
            ("id01/a/1.wav", "id02/b/1.wav"),
            {"path_columns": "{speaker}/{video}/{_}", "labels": ["speaker"]},
            "speaker",
        ),
        (("rock/us/1.wav", "jazz/uk/1.wav"), {"path_columns": "{folder1}/{folder2}/{_}"}, ""),
        (("train/1.wav", "test/1.wav"), {"path_columns": "{part}/{_}"}, ""),
    ],
)
def test_levels_of_folders_are_columns_and_labels_get_numbers(names, source, group_by, tmp_path):
    assert found(tmp_path, *names) == (source, group_by)


@pytest.mark.parametrize(
    "names", [("1.wav", "2.wav"), ("a/1.wav", "b/c/1.wav"), ("a/1.wav", "a/2.wav"), ("notes.txt",)]
)
def test_other_folders_have_no_labels(names, tmp_path):
    assert found(tmp_path, *names) is None
    assert found(tmp_path, *names, recognise=plain) == (None if names == ("notes.txt",) else ({}, ""))
