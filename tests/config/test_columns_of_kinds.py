"""The columns that a kind implies, in a table that has them or not."""

import pytest

from headrace.config.source import SourceConfig


@pytest.mark.parametrize(
    ("kind", "given", "names", "expected"),
    [
        ("nemo", {}, ["path", "offset", "duration"], {"start": "offset", "duration": "duration"}),
        ("nemo", {}, ["path", "duration"], {"duration": "duration"}),
        ("nemo", {"start": "begin"}, ["path"], {"start": "begin"}),
        ("nemo", {"end": None}, ["path"], {"end": None}),
        ("webdataset", {}, ["path", "id"], {"key": "id"}),
        ("webdataset", {"key": None}, ["path", "id"], {"key": None}),
        ("files", {"path": "file", "end": None}, [], {"path": "file", "end": None}),
    ],
)
def test_columns_that_a_kind_implies_may_be_missing_and_others_stay_as_they_are(kind, given, names, expected):
    tables = {"metadata": "t.csv", "samples": "rows"} if kind == "files" else {}
    found = SourceConfig(uri="x", kind=kind, columns=given, **tables).columns_in(names)
    assert {role: getattr(found, role) for role in found.model_fields_set} == expected
