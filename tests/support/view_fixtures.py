"""Views for tests: counts that a function of the key gives, committed by the library's own writer."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from headrace.format.beside.view_files import ViewOrigin, commit_view, partitions_of
from headrace.format.beside.views import ColumnsOrigin, NumberedView, PartitionCounts, ViewDefinition
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot, read_table
from headrace.stores.storage import LocalStorage


def write_view(  # noqa: PLR0913 - its parts
    output: Path,
    name: str,
    count: Callable[[str], int],
    *,
    where: str = "true",
    times: str | None = None,
    audio: NumberedSnapshot | None = None,
    columns: Sequence[ColumnsOrigin] = (),
) -> NumberedView:
    """`output/views/<name>`, in which a sample comes `count(key)` times in an epoch."""
    storage = LocalStorage(output / "audio")
    found = audio or read_snapshot(storage)
    table = read_table(storage, found.snapshot)
    definition, parts = ViewDefinition(where, times=times), []
    for partition, rows in partitions_of(table):
        indexes = [read_index(storage, table.name(row)) for row in range(rows.start, rows.stop)]
        keys = [index.key(row) for index in indexes for row in range(len(index))]
        counts = np.array([count(key) for key in keys], definition.dtype)
        parts.append(PartitionCounts(partition, table.num_samples[rows], counts))
    origin = ViewOrigin(definition, found, table, tuple(columns))
    return commit_view(LocalStorage(output / "views" / name), origin, parts)[0]
