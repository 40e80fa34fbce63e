"""Finds rows and columns of the metadata that probably mean something that the settings do not ask for."""

import re
from collections.abc import Collection, Iterable
from itertools import chain

import polars as pl

from headrace.config.dataset import DatasetConfig
from headrace.format.rejects import RejectReason
from headrace.format.segment_keys import SPAN_END

SPAN_COLUMNS = ("path", "start_frame", "stop_frame", "channels", "field_files")
"""Columns of the recordings table that name a span of a file."""

_SAME_SPAN = (
    "{} names a span that an earlier row names: both samples have the same audio. If these rows are channels of the "
    "file, name their column (source.columns.channel); if they say the same in other words, write one row with a list"
)
_HINTS = {
    "_skipme": "NeMo leaves out rows whose `_skipme` is set, and here they are samples: write "
    'source.where: "_skipme is null or _skipme = 0" (for true and false: "_skipme is null or not _skipme")',
    "channel": "a sample has all channels of its file, whatever this column says: write "
    "source.columns: {channel: channel}, or rename the column if it means something else",
}


def repeated_spans(partitions: Iterable[pl.DataFrame], rejected: pl.DataFrame) -> list[str]:
    """One line for each row that names the span of an earlier row.

    Args:
        partitions: the recordings (`SPAN_COLUMNS`) of each partition; all rows of a file are in one.
        rejected: the rejected table. A row without a key of its own is there, if its span is that of another row.
    """
    is_taken = (pl.col("code") == RejectReason.DUPLICATE_KEY) & pl.col("key").str.contains(SPAN_END)
    of_rejects = rejected.filter(is_taken)["path"]
    found = (rows.filter(~pl.struct(SPAN_COLUMNS).is_first_distinct())["path"] for rows in partitions)
    return [_SAME_SPAN.format(path) for path in chain(*found, of_rejects)]


def unused_columns(columns: Collection[str], config: DatasetConfig) -> list[str]:
    """One line for each column with a meaning in other tools that no setting of the data set uses.

    Args:
        columns: the names of the columns of the metadata.
        config: the settings.
    """
    source = config.source
    named = source.columns
    roles = {config.group_by, *source.text_columns, named.start, named.end, named.duration, named.channel}
    conditions = [source.where, *(view.where for view in config.views.values())]
    words = {word for condition in conditions for word in re.findall(r"\w+", condition or "")}
    return [f"column {name!r}: {hint}" for name, hint in _HINTS.items() if name in {*columns} - roles - words]
