"""Finds leaks: recordings with the same bytes in different splits, so that a model is tested on its training data.

`source.duplicates: group` prevents leaks by keeping such recordings in one group. `largest_group` shows how large
groups become.
"""

import polars as pl

from headrace.catalog.partitions import PARTITION, group_names, partitioned
from headrace.config.dataset import DatasetConfig
from headrace.format.manifests import split_of

_SPLIT = "split"
_SHOWN_PATHS = 4


def leaks(recordings: pl.DataFrame, config: DatasetConfig) -> list[str]:
    """One line per content that is in several splits: its paths, each with its split. Sorted by first path.

    Raises:
        ConfigError: see `headrace.catalog.partitions.partitioned`.
    """
    copies = partitioned(recordings, config).filter(pl.col("sha256").is_duplicated())
    splits = pl.Series(_SPLIT, [split_of(partition) for partition in copies[PARTITION]], dtype=pl.String)
    leaking = (
        copies.select("path", "sha256")
        .with_columns(splits)
        .sort("path")
        .filter(pl.col(_SPLIT).n_unique().over("sha256") > 1)
        .group_by("sha256", maintain_order=True)
        .agg("path", _SPLIT)
    )
    return [_line(paths, found) for _, paths, found in leaking.iter_rows()]


def largest_group(recordings: pl.DataFrame, config: DatasetConfig) -> int:
    """Number of recordings in the largest group. A content that is in many groups merges them all.

    Raises:
        ConfigError: `group_by` does not name a metadata column.
    """
    groups = group_names(recordings, config.group_by, config.source.duplicates)
    return int(groups.value_counts()["count"].max() or 0)  # type: ignore[arg-type]  # of counts: a number


def _line(paths: list[str], splits: list[str]) -> str:
    """Paths of one content with their splits, the first path of each split first; at most four."""
    pairs = list(zip(paths, splits, strict=True))
    firsts = {split: path for path, split in reversed(pairs)}
    ordered = [pair for pair in pairs if firsts[pair[1]] == pair[0]]
    ordered += [pair for pair in pairs if firsts[pair[1]] != pair[0]]
    more = f" and {len(pairs) - _SHOWN_PATHS} more" if len(pairs) > _SHOWN_PATHS else ""
    return ", ".join(f"{path} ({split})" for path, split in ordered[:_SHOWN_PATHS]) + more
