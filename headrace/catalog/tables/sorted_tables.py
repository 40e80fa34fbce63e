"""Sorts a table that is given in parts: only the result, and a small part besides, is in memory."""

from collections.abc import Sequence
from contextlib import closing

import polars as pl

from headrace.catalog.tables.buckets import NUM_BUCKETS, PART_BYTES, Buckets, PartTables, parts_of

_SAMPLED = 1000  # values of each table from which the limits of the buckets are chosen


def sorted_table(tables: PartTables, by: Sequence[str], most_bytes: int = PART_BYTES) -> pl.DataFrame:
    """The rows of all tables in one chunk, sorted by some columns, nulls last.

    The rows are divided into ranges of the first column, and each range is sorted for itself.

    Args:
        tables: one or more tables with the same columns.
        by: names of the columns; the first has text and no nulls.
        most_bytes: about this much is sorted at a time.
    """
    edges = _edges(tables, by[0])
    with closing(Buckets(tables[0].schema, most_bytes)) as ranges:
        for table in tables:
            ranges.add(table, edges.search_sorted(table[by[0]], side="right"))
        pieces = [ranges.part(run).sort(*by, nulls_last=True) for run in parts_of([ranges], most_bytes)]
    return _joined(pieces)


def _edges(tables: PartTables, name: str) -> pl.Series:
    """Values that divide a column into ranges of about the same number of rows."""
    samples = [table[name].gather_every(max(1, table.height // _SAMPLED)) for table in tables]
    values = pl.concat(samples).sort()
    return values.gather(
        sorted({len(values) * number // NUM_BUCKETS for number in range(1, NUM_BUCKETS)} - {len(values)})
    )


def _joined(pieces: list[pl.DataFrame]) -> pl.DataFrame:
    """One table of all pieces in one chunk. Columns are joined one by one, so that not everything is there twice."""
    columns = []
    for name in pieces[0].columns:
        columns.append(pl.concat([piece[name] for piece in pieces]).rechunk())
        for number, piece in enumerate(pieces):
            pieces[number] = piece.drop(name)
    return pl.DataFrame(columns)
