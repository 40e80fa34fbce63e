"""The sets of columns that a view reads follow from its condition and its balance."""

import pytest

from headrace.errors import ConfigError
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.format.beside.views import Balance, ViewDefinition
from headrace.views.definitions import columns_of_counts, sets_of
from headrace.views.names import ColumnNames

NAMES = ColumnNames(
    {
        "metadata": (ColumnSpec("key", ColumnKind.STRING, is_fact=True), ColumnSpec("speaker", ColumnKind.STRING)),
        "quality": (ColumnSpec("snr", ColumnKind.FLOAT),),
        "captions": (ColumnSpec("caption", ColumnKind.STRING),),
    }
)


@pytest.mark.parametrize(
    ("where", "by", "sets"),
    [
        ("snr > 3", None, ("quality",)),
        ("snr > 3 and captions.caption is not null", None, ("captions", "quality")),
        ("true", None, ()),
        (None, "speaker", ("metadata",)),
        ("snr > 3", "caption", ("captions", "metadata", "quality")),  # balance needs the keys of samples
    ],
)
def test_a_view_reads_the_sets_that_it_names(where, by, sets):
    assert sets_of(ViewDefinition(where, None if by is None else Balance(by, 0.5)), NAMES) == sets


def test_balance_reads_its_column_and_the_keys():
    assert columns_of_counts(ViewDefinition("snr > 3", None), NAMES) == ()
    found = columns_of_counts(ViewDefinition(None, Balance("speaker", 0.5)), NAMES)
    assert [(column.set, column.spec.name) for column in found] == [("metadata", "speaker"), ("metadata", "key")]


def test_an_unknown_column_is_an_error_that_says_where_it_is_named():
    with pytest.raises(ConfigError, match="balance by speakr"):
        columns_of_counts(ViewDefinition(None, Balance("speakr", 0.5)), NAMES)
