"""Whether a catalog has drifted from what the last snapshots held: length, lengths, share refused.

Owns the few numbers that are kept of a catalog and their comparison. Pure; keeping them is the caller's business.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median
from typing import TYPE_CHECKING

from headrace.config import DriftConfig
from headrace.rejects import Origin

if TYPE_CHECKING:
    from headrace.catalog import Catalog  # brings polars: a code server needs the comparisons alone

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CatalogNumbers:
    """What is kept of a catalog for each snapshot.

    Attributes:
        hours: of all recordings.
        duration_p10_seconds: a tenth of the recordings is shorter.
        duration_p50_seconds: half of them is.
        duration_p90_seconds: all but a tenth are.
        rejected_share: refused files in all files found, 0 to 1.
    """

    hours: float
    duration_p10_seconds: float
    duration_p50_seconds: float
    duration_p90_seconds: float
    rejected_share: float

    def to_dict(self) -> dict[str, float]:
        """By name, for metadata."""
        return asdict(self)


def catalog_numbers(catalog: "Catalog") -> CatalogNumbers:
    """The numbers of a catalog; zeros where it is empty."""
    durations = catalog.recordings["duration_seconds"]
    low, middle, high = (float(durations.quantile(share) or 0.0) for share in (0.1, 0.5, 0.9))
    origins = catalog.rejected["origin"]
    refused = int((origins != Origin.METADATA).sum())
    found = catalog.recordings.height + int((origins == Origin.FILE).sum())
    hours = float(durations.sum()) / _SECONDS_PER_HOUR
    return CatalogNumbers(round(hours, 6), low, middle, high, refused / found if found else 0.0)


def hours_drift(now: CatalogNumbers, before: Sequence[CatalogNumbers], limits: DriftConfig) -> list[str]:
    """What is wrong with the length of it all; nothing without a snapshot to compare with."""
    usual = _median([numbers.hours for numbers in before])
    if usual is None or abs(now.hours - usual) <= limits.hours * usual:
        return []
    return [f"{now.hours:.3f} hours, the last snapshots had {usual:.3f}: more than {limits.hours:.0%} of a change"]


def duration_drift(now: CatalogNumbers, before: Sequence[CatalogNumbers], limits: DriftConfig) -> list[str]:
    """Where the distribution of recordings' lengths has moved: its 10, 50 and 90% points."""
    faults = []
    for name in ("duration_p10_seconds", "duration_p50_seconds", "duration_p90_seconds"):
        usual, found = _median([getattr(numbers, name) for numbers in before]), getattr(now, name)
        if usual is not None and abs(found - usual) > limits.durations * usual:
            faults.append(f"{name} is {found:.3f}, it was {usual:.3f}: more than {limits.durations:.0%} of a change")
    return faults


def rejected_drift(now: CatalogNumbers, before: Sequence[CatalogNumbers], limits: DriftConfig) -> list[str]:
    """Whether more is refused than before."""
    usual = _median([numbers.rejected_share for numbers in before])
    if usual is None or now.rejected_share - usual <= limits.rejected:
        return []
    return [
        f"{now.rejected_share:.1%} of the files are refused, {usual:.1%} were: more than {limits.rejected:.1%} more"
    ]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
