"""Compares a catalog with those of the last snapshots: total length, distribution of lengths, share of rejected files.

Pure. The caller stores the numbers of each snapshot's catalog.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from headrace.catalog.stored.header import CatalogHeader
from headrace.config.operation import DriftConfig
from headrace.config.source import SampleKind
from headrace.format.rejects import ASKED_FOR, RejectSubject

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class CatalogNumbers:
    """The numbers of a catalog that are stored with each snapshot.

    Attributes:
        recorded_hours: total length of the recordings.
        duration_p10_seconds: length that 10% of the recordings are shorter than.
        duration_p50_seconds: median length.
        duration_p90_seconds: length that 90% of the recordings are shorter than.
        rejected_share: share of rejected files in all files, or of rejected rows in all rows if these are samples, 0 to
            1; without those that the YAML excludes.
    """

    recorded_hours: float
    duration_p10_seconds: float
    duration_p50_seconds: float
    duration_p90_seconds: float
    rejected_share: float

    def to_dict(self) -> dict[str, float]:
        """The numbers by name."""
        return asdict(self)


def catalog_numbers(header: CatalogHeader) -> CatalogNumbers:
    """The numbers of a catalog; zeros if it is empty."""
    are_rows = header.samples == SampleKind.ROWS
    judged = RejectSubject.METADATA if are_rows else RejectSubject.FILE
    refused = sum(
        number
        for origin, code, number in header.totals.rejects
        if origin in {judged, RejectSubject.DECODE} and code not in ASKED_FOR
    )
    found = header.num_rows + (header.num_rejected_rows if are_rows else header.num_rejected_files)
    share = refused / found if found else 0.0
    return CatalogNumbers(round(header.seconds / _SECONDS_PER_HOUR, 6), *header.totals.durations, share)


def hours_drift(now: CatalogNumbers, before: Sequence[CatalogNumbers], limits: DriftConfig) -> list[str]:
    """Errors if there is much more audio than before. `headrace.catalog.compared.regressions` reports lost audio."""
    usual = _median([numbers.recorded_hours for numbers in before])
    if usual is None or now.recorded_hours - usual <= limits.hours * usual:
        return []
    found = f"the catalog has {now.recorded_hours:.3f} hours, the last snapshots had {usual:.3f}"
    return [f"{found}: more than {limits.hours:.0%} more"]


def duration_drift(now: CatalogNumbers, before: Sequence[CatalogNumbers], limits: DriftConfig) -> list[str]:
    """Errors for the 10, 50 and 90% points of the recordings' lengths that changed too much."""
    faults = []
    for name in ("duration_p10_seconds", "duration_p50_seconds", "duration_p90_seconds"):
        usual, found = _median([getattr(numbers, name) for numbers in before]), getattr(now, name)
        if usual is not None and abs(found - usual) > limits.durations * usual:
            faults.append(f"{name} is {found:.3f}, it was {usual:.3f}: a change of more than {limits.durations:.0%}")
    return faults


def rejected_drift(now: CatalogNumbers, before: Sequence[CatalogNumbers], limits: DriftConfig) -> list[str]:
    """Errors if the share of rejected files is larger than before."""
    usual = _median([numbers.rejected_share for numbers in before])
    if usual is None or now.rejected_share - usual <= limits.rejected:
        return []
    found = f"{now.rejected_share:.1%} of the files are rejected, {usual:.1%} were before"
    return [f"{found}: more than {limits.rejected:.1%} more"]


def _median(values: Sequence[float]) -> float | None:
    return median(values) if values else None
