"""The columns that a kind implies, in a table that has them or not."""

import pytest

from headrace.config.source import SourceConfig

NO_SPAN = {"start": None, "end": None, "duration": None}


@pytest.mark.parametrize(
    ("kind", "given", "names", "expected"),
    [
        ("nemo", {}, ["path", "offset", "duration"], NO_SPAN | {"start": "offset", "duration": "duration"}),
        ("nemo", {}, ["path", "duration"], NO_SPAN | {"duration": "duration"}),
        ("nemo", {}, ["path", "start", "end"], NO_SPAN),
        ("nemo", {"start": "begin"}, ["path"], NO_SPAN | {"start": "begin"}),
        ("nemo", {"end": "until"}, ["path", "duration"], NO_SPAN | {"end": "until"}),
        ("nemo", {"end": None}, ["path"], NO_SPAN),
        ("kaldi", {}, ["path", "id", "start", "end"], NO_SPAN | {"key": "id", "start": "start", "end": "end"}),
        ("webdataset", {}, ["path", "id", "start", "end"], NO_SPAN | {"key": "id"}),
        ("webdataset", {"start": "start"}, ["path", "id"], NO_SPAN | {"key": "id", "start": "start"}),
        ("webdataset", {"key": None}, ["path", "id"], NO_SPAN | {"key": None}),
        ("files", {"path": "file", "end": None}, [], {"path": "file", "end": None}),
    ],
)
def test_columns_that_a_kind_implies_may_be_missing_and_others_stay_as_they_are(kind, given, names, expected):
    tables = {"metadata": "t.csv", "samples": "rows"} if kind == "files" else {}
    found = SourceConfig(uri="x", kind=kind, columns=given, **tables).columns_in(names)
    assert {role: getattr(found, role) for role in found.model_fields_set} == expected
