"""Events that an asset records while the optional tables that it reads are absent.

Dagster starts neither a step nor an asset of a backfill before everything upstream of it is materialized. Which sets of
columns a view reads is known only from their columns, so a view is downstream of all sets. A waiting asset therefore
records a materialization although it made nothing: otherwise all views and the report would wait with it. The
materialization has no `INPUTS_TAG` and not the version of a manifest, so the asset is due once its tables have come.
"""

from collections.abc import Iterable, Iterator, Sequence

import dagster as dg

from headrace_dagster.assets.build_comparison import unchecked

WAITS_FOR = "waits_for"
_VERSION = dg.DataVersion("waits for an optional table")


def waiting(sets: Sequence[str]) -> dg.MaterializeResult[None]:
    """The materialization of an asset that waits for the tables of these sets of columns."""
    return dg.MaterializeResult(data_version=_VERSION, metadata={WAITS_FOR: _tables_of(sets)})


def waiting_events(
    sets: Sequence[str], checks: Iterable[dg.AssetCheckSpec]
) -> Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]:
    """The materialization of `waiting`, after the results of the asset's checks."""
    yield from unchecked(checks, f"waits for {_tables_of(sets)}")
    yield waiting(sets)


def _tables_of(sets: Sequence[str]) -> str:
    return f"the optional table of the columns {' or '.join(sets)}"
