"""The check `listed_in_time` of the catalog: whether the sensor `source_changes` can list the source in time.

The scan estimates it from its own listing, and the sensor reports what happened. It blocks nothing.
"""

import dagster as dg

LISTED_IN_TIME = "listed_in_time"
MOST_SECONDS = 3600.0
"""The sensor gives up a listing that takes longer."""
_SHARE = 0.25  # of its time, a tick every five seconds lists
_LEFT = "its changes are left to the schedule `refresh`"


def listing_spec(key: dg.AssetKey) -> dg.AssetCheckSpec:
    """The check's specification."""
    return dg.AssetCheckSpec(
        LISTED_IN_TIME,
        asset=key,
        description=f"the sensor lists the source within {MOST_SECONDS / 3600:g} h, so that it sees its changes",
    )


def estimated_listing(key: dg.AssetKey, seconds: float) -> dg.AssetCheckResult:
    """The result of a scan whose listing took this long."""
    needed = seconds / _SHARE
    passed = needed <= MOST_SECONDS
    return dg.AssetCheckResult(
        check_name=LISTED_IN_TIME,
        asset_key=key,
        passed=passed,
        severity=dg.AssetCheckSeverity.WARN,
        description=None
        if passed
        else f"the sensor would need about {needed / 3600:.1f} h to list the source; {_LEFT}",
        metadata={"list_seconds": round(seconds, 3)},
    )


def reported_listing(key: dg.AssetKey, num_files: int, *, is_late: bool) -> dg.AssetCheckEvaluation:
    """The result of a listing of the sensor.

    Args:
        key: the catalog.
        num_files: how many files were listed.
        is_late: whether the listing was given up.
    """
    late = f"only {num_files} files were listed within {MOST_SECONDS / 3600:g} h; {_LEFT}"
    return dg.AssetCheckEvaluation(
        asset_key=key,
        check_name=LISTED_IN_TIME,
        passed=not is_late,
        severity=dg.AssetCheckSeverity.WARN,
        description=late if is_late else None,
        metadata={"files": num_files},
    )
