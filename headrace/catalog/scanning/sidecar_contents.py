"""Sidecars of recordings as the catalog keeps them: their stamps and contents, as JSON in the column `sidecars`. Pure.

A scan reads only new and changed sidecars, and takes the content of the others from there.
"""

import json
from collections.abc import Iterable
from typing import NamedTuple

import polars as pl

from headrace.catalog.rows.schemas import STAMP_SCHEMA, ColumnTypes

CONTENT_SCHEMA = ColumnTypes({**STAMP_SCHEMA, "content": pl.String})
"""Stamps and contents of sidecars."""


class SidecarFile(NamedTuple):
    """A sidecar: its path, stamp, and content as JSON: an object or a text."""

    path: str
    num_bytes: int
    mtime_ns: int
    ctime_ns: int
    content: str


def sidecars_json(files: Iterable[SidecarFile]) -> str:
    """The text of one recording."""
    return json.dumps(list(files), ensure_ascii=False, separators=(",", ":"))


def sidecar_contents(texts: pl.Series) -> pl.DataFrame:
    """The sidecars in a column `sidecars` (`CONTENT_SCHEMA`), each once."""
    rows = [row for text in texts.drop_nulls().unique() for row in json.loads(text)]
    return pl.DataFrame(rows, schema=CONTENT_SCHEMA, orient="row").unique("path")
