"""Asset checks that report once what became worse: new rejects, and audio that is gone. They block nothing."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import dagster as dg

from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.markdown import markdown_list
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource

if TYPE_CHECKING:
    from headrace.catalog.compared.regressions import Regressions

NEW_REJECTS = "new_rejects"
DROPPED_AUDIO = "dropped_audio"
COLUMN_TYPES = "column_types"
REGRESSION_CHECKS = frozenset({NEW_REJECTS, DROPPED_AUDIO, COLUMN_TYPES})
"""Checks whose failure does not make their asset stale. They report a problem once and pass the next time."""

_SECONDS_PER_HOUR = 3600.0
_TEXTS = {
    NEW_REJECTS: "no file or row is rejected that was accepted, or missing, at the last report",
    COLUMN_TYPES: "no column of the user's tables has another type than in the last scan",
    DROPPED_AUDIO: "no recording is gone, and there is not less accepted audio, since the last report",
}


def regression_spec(name: str, asset: dg.AssetKey) -> dg.AssetCheckSpec:
    """The specification of one of these checks."""
    return dg.AssetCheckSpec(name, asset=asset, description=_TEXTS[name])


def regression_result(name: str, asset: dg.AssetKey, regressions: "Regressions") -> dg.AssetCheckResult:
    """The result of one of these checks. A failure has severity WARN and lists what is new."""
    lines = regressions.reject_lines() if name == NEW_REJECTS else regressions.drop_lines()
    hours, before = regressions.seconds / _SECONDS_PER_HOUR, regressions.seconds_before / _SECONDS_PER_HOUR
    numbers: dict[str, dict[str, int | float]] = {
        NEW_REJECTS: {
            "rejected_usable_before": len(regressions.lost_to_rejection),
            "rejected_never_usable": len(regressions.other_rejects),
        },
        DROPPED_AUDIO: {"recordings_gone": len(regressions.gone), "audio_hours": hours, "earlier_audio_hours": before},
    }
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=name,
        passed=not lines,
        severity=dg.AssetCheckSeverity.WARN,
        description="\n\n".join([*lines[:1], markdown_list(lines[1:])]).strip() or None,
        metadata=numbers[name],
    )


def types_result(asset: dg.AssetKey, changes: Sequence[str]) -> dg.AssetCheckResult:
    """The result of the check of the types of columns."""
    return dg.AssetCheckResult(
        asset_key=asset,
        check_name=COLUMN_TYPES,
        passed=not changes,
        severity=dg.AssetCheckSeverity.WARN,
        description="\n".join(changes) or None,
        metadata={"changed_types": len(changes)},
    )


def decoding_regressions(dataset: ProjectDataset) -> dg.AssetChecksDefinition:
    """The check of rejects that only decoding finds, run after a commit. `catalog` reports the rejects of a scan."""
    config, keys = dataset.config, dataset.keys

    @dg.multi_asset_check(
        name=f"{config.name}__decoding_regressions", specs=[regression_spec(NEW_REJECTS, keys.sizes_index)]
    )
    def checks(headrace_storage: StorageResource) -> Iterator[dg.AssetCheckResult]:
        from headrace.catalog.compared.regressions import REGRESSION_COLUMNS, find_regressions, mark_reported  # noqa: PLC0415 - polars: not in a code server

        with readable_failures():
            output = headrace_storage.output(config)
            catalog = headrace_storage.catalog(config)
            narrow = (rows for _, rows in catalog.partitions(REGRESSION_COLUMNS))
            regressions = find_regressions(output, narrow, catalog.rejected(), None)
            yield regression_result(NEW_REJECTS, keys.sizes_index, regressions)
            mark_reported(output, regressions)

    return checks
