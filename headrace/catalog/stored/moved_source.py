"""Distinguishes a source that moved from the source of another project that writes to the same output."""

from collections.abc import Callable, Iterable

import polars as pl

from headrace.catalog.stored.parts import StoredCatalog
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, FormatError

_LEAST_SHARE = 0.5


def check_move(
    stored: StoredCatalog, recordings: Callable[[], Iterable[pl.DataFrame]], config: DatasetConfig, source: str
) -> None:
    """Raise `CatalogError` if the source is in another place, with fewer than half of the stored recordings.

    They are compared by the digests of their content, 8 bytes each. Nothing is compared if the place is the same, or if
    the YAML says that the output is taken over.

    Args:
        stored: the catalog that is to be replaced.
        recordings: returns the new recordings in parts.
        config: the settings of the data set.
        source: where the new recordings are.
    """
    totals = stored.header.totals
    if totals.source == source or config.output.takes_over is not None:
        return
    try:
        before = _contents(rows for _, rows in stored.partitions(["sha256"]))
    except (CatalogError, FormatError):  # a part is lost or damaged: this scan repairs it
        return
    kept = int(before.is_in(_contents(recordings()).implode()).sum())
    if kept >= _LEAST_SHARE * len(before):
        return
    raise CatalogError(
        f"{stored.output.uri}: the output has the recordings of {totals.source}, and {kept} of {len(before)} are in "
        f"{source}; another project may write to this output. Give this data set an output of its own, or, if it is to "
        f"replace what is there, write output: {{uri: {config.output.uri}, takes_over: {totals.dataset}}}"
    )


def _contents(tables: Iterable[pl.DataFrame]) -> pl.Series:
    """Hashes of the contents of recordings, each once."""
    nothing = pl.Series("sha256", [], dtype=pl.UInt64)
    return pl.concat([nothing, *(table["sha256"].hash().unique() for table in tables)]).unique()
