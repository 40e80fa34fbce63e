"""Compares the tables of rejects of two catalogs in parts, by the hash of what is rejected.

The result is that of `headrace.format.rejects.compare_rejects`: rows become values only if they are in it.
"""

from collections import Counter
from dataclasses import dataclass, field

import polars as pl

from headrace.catalog.tables.buckets import PART_BYTES, Buckets, bucket_of_paths
from headrace.format.rejects import ASKED_FOR, Reject, RejectChanges, RejectSubject, counted

COMPARED_REJECTS = ("path", "key", "code", "reason", "origin", "sha256")
"""The columns of the rejected table that are compared."""

_PLACE = "\0place"
_IDENTITY = ["is_row", "subject"]
_ROW = {"subject": pl.String(), "code": pl.String(), "reason": pl.String(), "is_row": pl.Boolean()}
_SCHEMA = pl.Schema({**_ROW, "is_file": pl.Boolean(), "sha256": pl.String(), _PLACE: pl.UInt32()})
_SLICE_ROWS = 50_000
_IS_ASKED_FOR = pl.col("code").is_in([str(code) for code in ASKED_FOR])


def rejected_columns(rejected: pl.DataFrame, *others: pl.Expr) -> pl.DataFrame:
    """The rejected table with the columns of `Reject`, in their order, and then others."""
    is_key = pl.col("origin") == RejectSubject.EXCLUDE
    is_row = pl.col("origin") == RejectSubject.METADATA
    return rejected.select(
        pl.when(is_key)
        .then(pl.format("key {}", "key"))
        .when(is_row & pl.col("key").is_not_null())
        .then(pl.format("{} ({})", "path", "key"))
        .otherwise("path")
        .alias("subject"),
        "code",
        "reason",
        is_row.alias("is_row"),
        *others,
    )


def rejects_by_subject(rejected: pl.DataFrame, part_bytes: int = PART_BYTES) -> Buckets:
    """A rejected table by bucket of the subject. The subject of a file is its path.

    Args:
        rejected: the table, with `COMPARED_REJECTS` or more, in its order.
        part_bytes: about this much is kept in memory.
    """
    table, start = Buckets(_SCHEMA, part_bytes), 0
    is_file = (pl.col("origin") == RejectSubject.FILE).alias("is_file")
    for piece in rejected.iter_slices(_SLICE_ROWS):
        place = pl.int_range(start, start + piece.height, dtype=pl.UInt32).alias(_PLACE)
        rows = rejected_columns(piece, is_file, pl.col("sha256"), place)
        table.add(rows, bucket_of_paths(rows["subject"]))
        start += piece.height
    return table


def refused_files(rejects: pl.DataFrame) -> pl.DataFrame:
    """The rejected files of a part of `rejects_by_subject`: `path`, `sha256`."""
    return rejects.filter("is_file").select("sha256", path="subject")


@dataclass(slots=True)
class RejectComparison:
    """The differences between two tables, part by part.

    Attributes:
        num_gone: as in `RejectChanges`.
    """

    num_gone: int = 0
    _codes: Counter[str] = field(default_factory=Counter)
    _new: list[pl.DataFrame] = field(default_factory=list)

    def add(self, old: pl.DataFrame, new: pl.DataFrame) -> None:
        """Add the same part of both tables (`rejects_by_subject`)."""
        self._codes.update(dict(new["code"].value_counts().iter_rows()))
        faults, old_faults = new.filter(~_IS_ASKED_FOR), old.filter(~_IS_ASKED_FOR)
        left_out, old_left_out = new.filter(_IS_ASKED_FOR), old.filter(_IS_ASKED_FOR)
        self._new += [_others(faults, old_faults), _others(left_out, old_left_out)]
        self.num_gone += _others(old_faults, faults).n_unique(_IDENTITY)

    def changes(self) -> RejectChanges:
        """The differences between all parts."""
        new = pl.concat([pl.DataFrame(schema=_SCHEMA), *self._new]).sort(_PLACE)
        codes = counted(self._codes.elements())
        return RejectChanges(
            new=_values(new.filter(~_IS_ASKED_FOR)),
            num_gone=self.num_gone,
            left_out=_values(new.filter(_IS_ASKED_FOR)),
            faults={code: number for code, number in codes if code not in ASKED_FOR},
            asked_for={code: number for code, number in codes if code in ASKED_FOR},
        )


def _others(rows: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Rows with a subject that no row of `known` has."""
    return rows.join(known, on=_IDENTITY, how="anti", nulls_equal=True)


def _values(rows: pl.DataFrame) -> tuple[Reject, ...]:
    return tuple(Reject(*row) for row in rows.select(*_ROW).iter_rows())
