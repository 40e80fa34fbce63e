"""Shared by test_rivals and the tests beside it."""

import polars as pl

from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.partitions import PARTITION
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import Partitioning
from headrace.config.source import Duplicates
from headrace.format.rejects import RejectSubject
from tests.support.catalog_fakes import (
    AT_ONCE,
    FakeSource,
    fake_runtime,
    with_partitions,
)

LAYOUT = Partitioning({"train": 0.5, "test": 0.5}, {"train": 3}, 4)


def source_of(contents):
    source = FakeSource()
    for path, content in contents.items():
        source.put(path, content.encode())
    return source


def scanned(contents, artists=None, asked=AT_ONCE):
    """Scan files with these contents and artists, without the slower checks of `look`."""
    columns = {"path": list(artists or {}), "artist": list((artists or {}).values())}
    metadata = pl.DataFrame(columns, schema=dict.fromkeys(columns, pl.String))
    result = scan(source_of(contents), None, asked, metadata, fake_runtime())
    refused = result.rejected.filter(pl.col("origin") == RejectSubject.FILE).height
    assert result.num_found == result.recordings.height + refused
    return result


def config_of(duplicates="keep", group_by=None, **source):
    return DatasetConfig(
        name="birds",
        source={"uri": "x", "duplicates": duplicates, **source},
        splits={"train": 0.5, "test": 0.5},
        group_by=group_by,
        shards={"partitions": {"train": 3}},
        output={"uri": "y"},
    )


def partitions(recordings, group_by, duplicates=Duplicates.GROUP):
    return dict(with_partitions(recordings, LAYOUT, group_by, duplicates).select("path", PARTITION).iter_rows())
