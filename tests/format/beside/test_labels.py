"""Numbers of labels, from snapshot to snapshot."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.errors import ConfigError
from headrace.format.beside.column_table import Column, ColumnKind, ColumnSpec, ColumnTable
from headrace.format.beside.labels import appended, labels_of

VALUES = st.lists(st.text(max_size=2), max_size=4)
PARTITIONS = st.lists(st.dictionaries(st.sampled_from(["bird", "place"]), VALUES), max_size=3)


@pytest.mark.medium
@given(st.lists(PARTITIONS, max_size=6))
def test_a_number_never_changes_and_is_never_given_again(snapshots):
    before, seen = {}, {}
    for partitions in snapshots:
        after = appended(before, partitions)
        assert before.keys() <= after.keys()
        for one in partitions:
            for name, values in one.items():
                seen.setdefault(name, set()).update(values)
        for name, labels in after.items():
            assert labels[: len(before.get(name, ()))] == list(before.get(name, ()))
            assert len(set(labels)) == len(labels)
            assert set(labels) == seen[name]
        before = after


def table(**columns):
    made = [Column.of(ColumnSpec(name, kind), values) for name, (kind, values) in columns.items()]
    fact = Column.of(ColumnSpec("split", ColumnKind.STRING, is_fact=True), ["train"] * 3)
    return ColumnTable((*made, fact), 3, "", "")


def test_labels_are_the_distinct_values_of_columns_of_text():
    made = table(bird=(ColumnKind.STRING, ["owl", None, "owl"]), size=(ColumnKind.INT, [1, 2, 3]))
    assert labels_of(made, ["bird"]) == {"bird": {"owl"}}
    for name in ("size", "split", "place"):
        with pytest.raises(ConfigError, match=f"'{name}' is no column of text of the metadata; those are bird"):
            labels_of(made, [name])
