"""Recordings with the same audio in several splits are named with their splits."""

from headrace.catalog.judging.leaks import LEAK_COLUMNS, leaks
from tests.support.catalog_fakes import (
    stored,
)
from tests.support.rivals import config_of, scanned


def test_duplicates_across_splits_are_named_with_their_splits_and_counted():
    contents = {f"{number:02d}.wav": "same" for number in range(30)} | {"x.wav": "only one"}
    catalog = scanned(contents).catalog

    def found(config, catalog=catalog):
        return leaks(lambda: stored(catalog, config).partitions(LEAK_COLUMNS))

    (line,) = found(config_of())
    assert "(train)" in line
    assert "(test)" in line
    assert line.endswith(" and 26 more")
    assert found(config_of("group")) == []
    assert found(config_of(), scanned({}).catalog) == []
