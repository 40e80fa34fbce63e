"""Makes a metadata table of the rows that a corpus itself has (`headrace.sources.corpus_rows`)."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import polars as pl

from headrace.catalog.tables.metadata_files import MetadataTable, open_metadata
from headrace.config.source import SourceConfig
from headrace.config.tables import TableFormat
from headrace.errors import ConfigError
from headrace.stores.temporary_room import temporary_room

_PIECE_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class ChosenTable:
    """A `MetadataTable` without the rows that the corpus leaves out.

    Attributes:
        table: the other rows.
        num_left_out: how many were left out.
    """

    table: MetadataTable
    num_left_out: int

    @property
    def schema(self) -> pl.Schema:
        """Names and types of the columns."""
        return self.table.schema

    def batches(self) -> Iterator[pl.DataFrame]:
        """The rows in order, some at a time."""
        return self.table.batches()


def open_rows(rows: Iterator[Mapping[str, Any]], source: SourceConfig) -> ChosenTable:
    """The rows as a table, without those that are left out. The types of its columns follow from all rows.

    Args:
        rows: the rows of the corpus, read once.
        source: the section of the YAML, for the columns that are text and declared types.

    Raises:
        ConfigError: the corpus cannot be read or has no row, or the values of a column have different kinds.
        StorageError: the temporary folder is full.
    """
    shown = f"of source.uri {source.uri} (kind {source.kind})"
    encode = json.JSONEncoder(ensure_ascii=False, default=str).encode
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as file:
        num_left_out = 0
        while piece := list(islice(rows, _PIECE_ROWS)):
            with temporary_room("a table"):
                file.writelines(encode(row) + "\n" for row in piece if row)
            num_left_out += sum(not row for row in piece)
        with temporary_room("a table"):
            file.flush()
        if not Path(file.name).stat().st_size:
            raise ConfigError(f"source.uri {source.uri}: the {source.kind} corpus has no row, so there is no sample")
        form = source.table.model_copy(update={"format": TableFormat.JSONL})
        texts = (*source.text_columns, "id")
        table = open_metadata(Path(file.name), shown, path_column=source.path_column, text_columns=texts, form=form)
        return ChosenTable(table, num_left_out)
