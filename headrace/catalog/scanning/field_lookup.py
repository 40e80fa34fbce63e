"""Finds the files that rows name as audio fields (`source.fields`), while a scan is divided into parts.

A row is judged in the part of its recording (its first field), but the files of its other fields may be in other parts.
So rows first ask for files (`ask`), then each part answers with the facts of those that it has (`answer`), and the
answers wait in the buckets of the rows (`answers`). In the other direction, a part has to know which rows name its
files, and what became of these rows (`name`, `named`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

from headrace.catalog.rows.path_spelling import spelled_as_files
from headrace.catalog.rows.row_columns import ROW_NUMBER, field_column, path_columns
from headrace.catalog.rows.schemas import FACT_SCHEMA
from headrace.catalog.tables.buckets import Buckets, bucket_of_paths

_GIVEN, _ASKER, _IS_FILE, _FIELD = "\0given", "\0asker", "\0is_file", "\0number"
_NAMED_SCHEMA = {"path": pl.String, "code": pl.String, "reason": pl.String, ROW_NUMBER: pl.Int64, _FIELD: pl.UInt8}


@dataclass(frozen=True, slots=True)
class Answers:
    """Files that the rows of a part asked for.

    Attributes:
        facts: the files that exist and are not left for the next scan (`FACT_SCHEMA`), one row per path.
        spelling: `given` path → `path` as the source spells it, for each path that was asked for.
    """

    facts: pl.DataFrame
    spelling: pl.DataFrame

    def spelled(self, rows: pl.DataFrame) -> pl.DataFrame:
        """Rows with the paths of their other fields as the source spells them."""
        for column in path_columns(rows)[1:]:
            given = self.spelling.rename({_GIVEN: column, "path": _GIVEN})
            joined = rows.join(given, on=column, how="left", maintain_order="left")
            rows = joined.with_columns(pl.coalesce(_GIVEN, column).alias(column)).drop(_GIVEN)
        return rows


class FieldLookup:
    """The questions, answers and names of all parts, in temporary files if they are large. `close` deletes them."""

    def __init__(self, fields: Sequence[str], most_bytes: int) -> None:
        """Nothing has been asked.

        Args:
            fields: names of the audio fields; the first one is the row's own file.
            most_bytes: as in `Buckets`.
        """
        self._columns = [field_column(name) for name in fields[1:]]
        self._asked = Buckets(pl.Schema({_GIVEN: pl.String, _ASKER: pl.UInt8}), most_bytes)
        answered = pl.Schema([(_GIVEN, pl.String), *pl.Schema(FACT_SCHEMA).items(), (_IS_FILE, pl.Boolean)])
        self._answered = Buckets(answered, most_bytes)
        self._named = Buckets(pl.Schema(_NAMED_SCHEMA), most_bytes)

    def ask(self, rows: pl.DataFrame) -> None:
        """Ask for the files that the other fields of rows name."""
        askers = bucket_of_paths(rows["path"])
        for column in self._columns:
            asked = pl.DataFrame({_GIVEN: rows[column], _ASKER: askers}).drop_nulls(_GIVEN).unique(maintain_order=True)
            self._asked.add(asked, bucket_of_paths(asked[_GIVEN]))

    def answer(self, part: range, files: pl.Series, facts: pl.DataFrame) -> None:
        """Answer what was asked of a part.

        Args:
            part: its buckets.
            files: paths of all files of the part.
            facts: facts of those that are not left for the next scan (`FACT_SCHEMA`).
        """
        asked = self._asked.part(part).unique(maintain_order=True)
        asked = asked.with_columns(spelled_as_files(asked[_GIVEN], files).alias("path"))
        known = facts.with_columns(pl.lit(value=True).alias(_IS_FILE))
        answered = asked.join(known, on="path", how="left", maintain_order="left")
        self._answered.add(answered, answered[_ASKER])

    def answers(self, part: range) -> Answers:
        """The answers to the rows of a part."""
        answered = self._answered.part(part).unique(_GIVEN, maintain_order=True)
        facts = answered.filter(pl.col(_IS_FILE)).unique("path", maintain_order=True)
        return Answers(facts.select(*FACT_SCHEMA), answered.select(_GIVEN, "path"))

    def name(self, candidates: pl.DataFrame) -> None:
        """Say which files the candidates of a part name, and what is decided about these rows so far."""
        for number, column in enumerate(["path", *self._columns]):
            field = pl.lit(number, dtype=pl.UInt8).alias(_FIELD)
            named = candidates.select(pl.col(column).alias("path"), "code", "reason", ROW_NUMBER, field)
            self._named.add(named, bucket_of_paths(named["path"]))

    def named(self, part: range) -> pl.DataFrame:
        """The files of a part that rows name: `path`, `code`, `reason` and number of the row; first fields first."""
        return self._named.part(part).sort(_FIELD, ROW_NUMBER).drop(_FIELD)

    def close(self) -> None:
        """Delete the temporary files."""
        for table in (self._asked, self._answered, self._named):
            table.close()
