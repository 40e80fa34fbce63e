"""The files of named audio fields (`source.fields`), as JSON in the catalog's column `field_files`. Pure.

The first field is the row's own file. The facts are in the row and not only in the table of files, because they are
needed for each row, in the order of the fields.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import polars as pl

from headrace.audio import AudioInfo
from headrace.catalog.rows.recordings import FieldFile
from headrace.catalog.rows.schemas import AUDIO_SCHEMA, FILE_SCHEMA
from headrace.format.typed_json import json_value

_STAMP = ("path", "sha256", "num_bytes", "mtime_ns", "ctime_ns")
_DIGESTED = ("name", "path", "sha256", *AUDIO_SCHEMA)
_SLICE_ROWS = 10_000


def field_files_json(names: Sequence[str], files: Sequence[dict[str, Any]]) -> str:
    """The text of one row: the facts of the file of each field (`FILE_SCHEMA`), in the order of the fields."""
    listed = [{"name": name, **file} for name, file in zip(names, files, strict=True)]
    return json.dumps(listed, ensure_ascii=False, separators=(",", ":"))


def parsed_field_files(text: str | None) -> tuple[FieldFile, ...]:
    """The files of a row's fields; none for null."""
    return tuple(
        FieldFile(
            name=file["name"],
            **{fact: file[fact] for fact in _STAMP},
            info=AudioInfo(**{fact: file[fact] for fact in AUDIO_SCHEMA}),
        )
        for file in _listed(text)
    )


def digested_field_files(text: str | None) -> str:
    """Content of a row's digest about the files of its fields: everything but times and sizes; empty for null."""
    return json.dumps([[file[fact] for fact in _DIGESTED] for file in _listed(text)]) if text else ""


def field_file_facts(recordings: pl.DataFrame) -> pl.DataFrame:
    """Facts of all files of named audio fields (`FILE_SCHEMA`), one row per path."""
    tables = [pl.DataFrame(schema=FILE_SCHEMA)]
    if "field_files" in recordings.columns and recordings["field_files"].null_count() < recordings.height:
        for piece in recordings["field_files"].drop_nulls().to_frame().iter_slices(_SLICE_ROWS):
            rows = list(_rows(piece.to_series()))
            tables.append(pl.DataFrame(rows, schema=FILE_SCHEMA, orient="row").unique("path", maintain_order=True))
    return pl.concat(tables).unique("path", keep="first", maintain_order=True)


def files_of(recordings: pl.DataFrame) -> pl.DataFrame:
    """Facts of all files that rows name (`FILE_SCHEMA`), those of named audio fields included; one row per path."""
    files = recordings.select(*FILE_SCHEMA).unique("path", keep="first", maintain_order=True)
    others = field_file_facts(recordings).join(files, on="path", how="anti", maintain_order="left")
    return pl.concat([files, others])


def _rows(texts: pl.Series) -> Iterator[tuple[Any, ...]]:
    for text in texts:
        yield from (tuple(file[fact] for fact in FILE_SCHEMA) for file in _listed(text))


def _listed(text: str | None) -> list[dict[str, Any]]:
    return json_value(text) if text else []
