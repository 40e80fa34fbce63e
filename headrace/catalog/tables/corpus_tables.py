"""Makes a metadata table of the rows that a corpus itself has (`headrace.sources.corpus_rows`)."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from headrace.catalog.tables.metadata_files import MetadataTable, open_metadata
from headrace.config.source import SourceConfig
from headrace.config.tables import TableFormat
from headrace.errors import ConfigError
from headrace.stores.temporary_room import temporary_room

_PIECE_ROWS = 10_000


def open_rows(rows: Iterator[Mapping[str, Any]], source: SourceConfig) -> MetadataTable:
    """The rows as a table, whose types follow from all of them. Large ones go through a temporary file.

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
        while piece := list(islice(rows, _PIECE_ROWS)):
            with temporary_room("a table"):
                file.writelines(encode(row) + "\n" for row in piece)
        with temporary_room("a table"):
            file.flush()
        if not Path(file.name).stat().st_size:
            raise ConfigError(f"source.uri {source.uri}: the {source.kind} corpus has no row, so there is no sample")
        form = source.table.model_copy(update={"format": TableFormat.JSONL})
        return open_metadata(
            Path(file.name), shown, path_column=source.path_column, text_columns=(*source.text_columns, "id"), form=form
        )
