"""Decides whether a check of a partition has to read shards, and makes the results of checks."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import dagster as dg

from headrace_dagster.assets.markdown import markdown_list
from headrace_dagster.resources.dagster_internals.event_log import CheckResult, result_before

_SHOWN = 20


@dataclass(frozen=True, slots=True)
class BuildComparison:
    """Shards of a partition that a run has already compared, because it has built the partition.

    Attributes:
        instance: the Dagster instance.
        run_id: the run.
        key: the partitioned asset.
        partition: the partition.
        written: number of shards that this run wrote and compared; None if this run has not built the partition.
    """

    instance: dg.DagsterInstance
    run_id: str
    key: dg.AssetKey
    partition: str
    written: int | None

    @classmethod
    def by_the_build(
        cls, instance: dg.DagsterInstance, run_id: str, key: dg.AssetKey, partition: str
    ) -> "BuildComparison":
        """Read how many shards the materialization of this partition in this run compared, if there is one."""
        of_partition = dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition])
        found = instance.fetch_materializations(of_partition, limit=1).records
        if not found or found[0].run_id != run_id:
            return cls(instance, run_id, key, partition, None)
        metadata = found[0].asset_materialization.metadata if found[0].asset_materialization else {}
        return cls(instance, run_id, key, partition, int(str(metadata["shards_written"].value)))

    def verdict(self, name: str, faults: Callable[[], list[str]], numbers: Mapping[str, int]) -> dg.AssetCheckResult:
        """The result of a check: without faults if the build has compared the shards, otherwise from `faults`.

        A partition whose check did not pass the last time is read in any case, and so is one whose check runs alone.
        """
        if self.written is None or not self._was_sound(name):
            return verdict(faults(), numbers, name, self.key)
        return verdict([], {**numbers, "shards_compared": self.written}, name, self.key)

    def _was_sound(self, name: str) -> bool:
        """Whether the check passed the last time, or has no result.

        Without a result, the partition is new, or the Dagster instance is: that opens no shard of an existing output.
        """
        check = dg.AssetCheckKey(self.key, name)
        before = result_before(self.instance, check, self.partition, self.run_id)
        return before in {None, CheckResult.PASSED}


def unchecked(specs: Iterable[dg.AssetCheckSpec], why: str) -> Iterator[dg.AssetCheckResult]:
    """The results of the checks of a step that made nothing: nothing is wrong."""
    for spec in specs:
        yield dg.AssetCheckResult(check_name=spec.name, asset_key=spec.asset_key, passed=True, description=why)


def verdict(
    faults: Sequence[str], metadata: Mapping[str, Any], name: str | None = None, key: dg.AssetKey | None = None
) -> dg.AssetCheckResult:
    """A result that passes without faults, and otherwise lists them. A step with several checks gives name and key."""
    return dg.AssetCheckResult(
        passed=not faults,
        metadata=dict(metadata),
        description=markdown_list(faults, _SHOWN) or None,
        check_name=name,
        asset_key=key,
    )
