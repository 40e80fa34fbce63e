"""Finds leaks: recordings with the same audio in different splits, so that a model is tested on its training data.

`source.duplicates: group` prevents leaks by keeping such recordings in one group.
"""

from collections.abc import Callable, Iterable

import polars as pl

from headrace.catalog.rows.schemas import CONTENT, contents
from headrace.format.manifests.manifests import split_of

LEAK_COLUMNS = ("path", *CONTENT)
"""Columns of the recordings table that are compared."""

_SPLIT = "split"
_SHOWN_PATHS = 4


def leaks(partitions: Callable[[], Iterable[tuple[str, pl.DataFrame]]]) -> list[str]:
    """One line per content that is in several splits: its paths, each with its split. Sorted by first path.

    Args:
        partitions: returns each partition, and a table of its recordings with `LEAK_COLUMNS`. It is called twice, so
            that only 16 bytes a recording are held at once.
    """
    suspects = _in_several_splits(partitions())
    if suspects.is_empty():
        return []
    copies = [
        rows.select("path", contents(rows), pl.lit(split_of(partition)).alias(_SPLIT)).filter(
            pl.col("content").hash().is_in(suspects.implode())
        )
        for partition, rows in partitions()
    ]
    leaking = (
        pl.concat(copies)
        .sort("path")
        .filter(pl.col(_SPLIT).n_unique().over("content") > 1)
        .group_by("content", maintain_order=True)
        .agg("path", _SPLIT)
    )
    return [_line(paths, found) for _, paths, found in leaking.iter_rows()]


def _in_several_splits(partitions: Iterable[tuple[str, pl.DataFrame]]) -> pl.Series:
    """Hashes of the contents that are in several splits; a few others may be among them."""
    found: dict[str, list[pl.Series]] = {}
    for partition, rows in partitions:
        found.setdefault(split_of(partition), []).append(contents(rows).hash())
    distinct = [pl.concat(hashes).unique() for hashes in found.values()]
    together = pl.concat([pl.Series("content", [], dtype=pl.UInt64), *distinct])
    return together.filter(together.is_duplicated()).unique()


def _line(paths: list[str], splits: list[str]) -> str:
    """Paths of one content with their splits, the first path of each split first; at most four."""
    pairs = list(zip(paths, splits, strict=True))
    firsts = {split: path for path, split in reversed(pairs)}
    ordered = [pair for pair in pairs if firsts[pair[1]] == pair[0]]
    ordered += [pair for pair in pairs if firsts[pair[1]] != pair[0]]
    more = f" and {len(pairs) - _SHOWN_PATHS} more" if len(pairs) > _SHOWN_PATHS else ""
    return ", ".join(f"{path} ({split})" for path, split in ordered[:_SHOWN_PATHS]) + more
