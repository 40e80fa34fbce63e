"""Cuts the events in the metadata of a row to what is kept of its sample, and draws them on grids of time."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import ConfigError, SampleError
from headrace.streaming.batches.arena import Allocator
from headrace.streaming.batches.user_fields import StackedField, ValueKind
from headrace.streaming.rasters import Raster, cut_events, events_of
from headrace.streaming.samples.crop import SampleCrop
from headrace.streaming.samples.stored_sample import BatchRow

_INTERVALS = "intervals"
"""Kind of a column that holds events."""

Grid = NDArray[Any]


def drawn_events(row: BatchRow, crop: SampleCrop, metadata: dict[str, Any]) -> dict[str, Grid]:
    """Cut the events in `metadata`, and draw those that have a raster.

    Args:
        row: the row.
        crop: its crop, after `primary`.
        metadata: with the row's columns; events of rasters, and columns of intervals, are replaced if the row is cut.

    Returns:
        The grid of each raster, see `Raster.drawn`.

    Raises:
        SampleError: a column is missing, or holds no events, or a label has no class.
        ConfigError: the sample has no frame rate.
    """
    columns = dict.fromkeys(raster.column for _, raster in row.rasters)
    found = {name: events_of(_value(metadata, name), name) for name in columns}
    if crop.cuts:
        found |= {name: events_of(metadata[name], name) for name in intervals_of(row) if metadata.get(name) is not None}
    if not found:
        return {}
    if not crop.rate_hz:
        raise ConfigError(
            f"{row.primary.shard_name}: the index has no frame rate, which rasters and crops of events need"
        )
    if crop.cuts:
        found = {name: cut_events(events, *crop.span_seconds) for name, events in found.items()}
        metadata |= {name: events for name, events in found.items() if metadata.get(name) is not None}
    return {name: raster.drawn(found[raster.column], _num_cells(crop, raster)) for name, raster in row.rasters}


def padded_grids(
    grids: Mapping[int, Grid], raster: Raster, num_rows: int, allocator: Allocator, origin: ValueKind
) -> StackedField:
    """The grids of a batch's rows in one array (B, T) or (B, T, C), with the length of each."""
    length = max((len(grid) for grid in grids.values()), default=0)
    shape, dtype = (
        ((num_rows, length, len(raster.classes)), np.bool_) if raster.multi else ((num_rows, length), np.int64)
    )
    values = allocator.empty(shape, dtype)
    values[:] = raster.fill
    lengths = np.zeros(num_rows, np.int64)
    for row, grid in grids.items():
        values[row, : len(grid)], lengths[row] = grid, len(grid)
    return StackedField(values, origin, np.dtype(dtype).name, lengths)


def _num_cells(crop: SampleCrop, raster: Raster) -> int:
    """Cells of what is kept, from its frames: a difference of times would depend on where it begins."""
    return round(crop.num_frames * raster.hz / crop.rate_hz)


def _value(metadata: Mapping[str, Any], column: str) -> object:
    if column not in metadata:
        raise SampleError(
            f"rasters: the metadata has no column {column!r}, it has {', '.join(metadata) or 'nothing'}: name the set "
            "that has it in columns=[…]"
        )
    return metadata[column]


def intervals_of(row: BatchRow) -> list[str]:
    """The joined columns whose events are cut with the row."""
    sets = () if row.columns is None else row.columns.sets
    return [spec.name for one in sets for spec in one.joined if spec.kind == _INTERVALS]
