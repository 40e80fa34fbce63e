"""Collects what a report shows of a catalog: durations, channels, and hours by split and category.

The catalog is read partition by partition, once, so that memory does not depend on its size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from headrace.catalog.rows.metadata_columns import metadata_columns
from headrace.format.manifests.manifests import split_of

_CATEGORY_NAMES = ("category", "class", "label", "genre", "instrument", "language", "speaker")
_MOST_CATEGORIES = 30
_MOST_DURATIONS = 100_000
_SECONDS_PER_HOUR = 3600.0
_NONE = "(none)"

_Hours = dict[str, dict[str | None, float]]


@dataclass(frozen=True, slots=True)
class CatalogFigures:
    """Figures of a catalog in a report.

    Attributes:
        durations: durations of at most 100,000 recordings, in seconds.
        category: name of the metadata column by which `hours` is divided; empty without one.
        hours: split → category → hours.
        num_channels: the numbers of channels that occur.
    """

    durations: Sequence[float] = ()
    category: str = ""
    hours: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    num_channels: frozenset[int] = frozenset()


def catalog_figures(partitions: Iterable[tuple[str, pl.DataFrame]], splits: Sequence[str]) -> CatalogFigures:
    """Collect the figures.

    The category is a text column with 2 to 30 different values, preferably one of a usual name.

    Args:
        partitions: each partition that has recordings, and its recordings table.
        splits: all splits, in the order in which they are shown.
    """
    durations: list[float] = []
    channels: set[int] = set()
    columns: dict[str, _Hours] | None = None
    every: _Hours = {}
    for partition, rows in partitions:
        split = split_of(partition)
        durations += rows["duration_seconds"].head(_MOST_DURATIONS - len(durations)).to_list()
        channels.update(rows["num_channels"].unique())
        _add(every, split, rows.select(name=pl.lit("all"), seconds="duration_seconds"))
        if columns is None:
            columns = {user: {} for stored, user in metadata_columns(rows).items() if rows.schema[stored] == pl.String}
        stored = {user: column for column, user in metadata_columns(rows).items()}
        for user in list(columns):
            _add(columns[user], split, rows.select(name=stored[user], seconds="duration_seconds"))
            if len(_values(columns[user])) > _MOST_CATEGORIES:
                del columns[user]
    category = _category({user: hours for user, hours in (columns or {}).items() if len(_values(hours)) > 1})
    chosen = (columns or {}).get(category, every)
    hours = {
        split: {_NONE if name is None else name: chosen[split][name] for name in _sorted(chosen.get(split, {}))}
        for split in splits
    }
    return CatalogFigures(durations, category, hours if every else {}, frozenset(channels))


def _add(hours: _Hours, split: str, rows: pl.DataFrame) -> None:
    """Add the hours of rows with `name` and `seconds`."""
    found = hours.setdefault(split, {})
    for name, seconds in rows.group_by("name").agg(pl.col("seconds").sum()).iter_rows():
        found[name] = found.get(name, 0.0) + seconds / _SECONDS_PER_HOUR


def _values(hours: _Hours) -> set[str | None]:
    return {name for found in hours.values() for name in found}


def _category(fitting: Mapping[str, object]) -> str:
    named = [name for name in _CATEGORY_NAMES if name in fitting]
    return (named or sorted(fitting) or [""])[0]


def _sorted(names: Iterable[str | None]) -> list[str | None]:
    return sorted(names, key=lambda name: _NONE if name is None else name)
