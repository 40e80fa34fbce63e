"""Names rows of the metadata table that their number does not name: of several files, and of a corpus. Pure."""

import polars as pl

from headrace.catalog.rows.row_columns import DURATION, END, EXPLICIT_KEY, PLACE, SPAN_FAULT, START
from headrace.catalog.tables.row_origins import RowOrigin

_TIMES = (START, END, DURATION)


def with_places(table: pl.DataFrame, origin: RowOrigin | None) -> pl.DataFrame:
    """A prepared batch with `PLACE`, and with the fault of rows that belong to no row of a corpus.

    Args:
        table: the batch, with its paths and keys.
        origin: where its rows come from.
    """
    names = None if origin is None else origin.names()
    if origin is None or names is None:
        return table
    if origin.file is None:
        row, of_key = pl.format("the row of {}", "path"), pl.format(" (key '{}')", EXPLICIT_KEY)
        only_key = pl.format("the row with the key '{}'", EXPLICIT_KEY)
        table = table.with_columns(pl.coalesce(names, pl.concat_str(row, of_key), row, only_key).alias(PLACE))
        if origin.faults is None:
            return table
        no_times = (pl.lit(None, dtype=pl.Float64).alias(name) for name in _TIMES)
        return table.with_columns(*no_times, origin.faults.alias(SPAN_FAULT))
    return table.with_columns(names.alias(PLACE))


def is_unjoined() -> pl.Expr:
    """Whether a row has the fault that it belongs to no row of a corpus: it has no times that could have another."""
    return pl.col(SPAN_FAULT).is_not_null() & pl.all_horizontal(pl.col(_TIMES).is_null())
