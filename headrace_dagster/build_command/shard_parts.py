"""One kind of shards in a build, and its present state: what is there, what is to be built, and why."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

import dagster as dg

from headrace.assemble.build_reasons import BuildReason, Settings, why_build
from headrace.assemble.changes import ShardsBefore
from headrace.assemble.staleness import plan_build
from headrace.format.manifests.manifests import newest_manifests
from headrace.format.shards.condemned import lasting_sizes
from headrace.stores.storage import Storage
from headrace_dagster.assets.records import AssetRecords, newest_snapshot


@dataclass(frozen=True, slots=True)
class ShardPart:
    """One kind of shards.

    Attributes:
        key: its asset.
        storage: its folder.
        settings: what its shards depend on besides their source.
        sources: partition → digest of its source.
    """

    key: dg.AssetKey
    storage: Storage
    settings: Settings
    sources: Mapping[str, str]

    @property
    def wanted(self) -> dict[str, str]:
        """Partition → digest of the manifest that it should have."""
        return {name: self.settings.wanted(source) for name, source in self.sources.items()}

    def before(self, records: AssetRecords, with_audio: Collection[str] = ()) -> ShardsBefore:
        """The present state of the shards, with the partitions to build and why.

        Args:
            records: what the Dagster instance has recorded.
            with_audio: for columns, partitions whose audio is built first.
        """
        sizes = lasting_sizes(self.storage)
        numbered = newest_manifests(self.storage)
        found = {name: one.manifest for name, one in numbered.items()}
        damaged = {name for name, manifest in found.items() if not manifest.is_whole(sizes)}
        plan = plan_build(self.wanted, numbered, damaged)
        unrecorded = records.unrecorded(self.key, plan.current)
        newest = newest_snapshot(self.storage)
        held = {*self.sources, *(newest.snapshot.manifests if newest else ())}
        why = {
            name: why_build(found.get(name), source, self.settings, is_damaged=name in damaged)
            or (BuildReason.UNRECORDED,)
            for name, source in self.sources.items()
            if name in plan.stale or name in unrecorded
        }
        new_audio = {name: (BuildReason.AUDIO if name in found else BuildReason.NEW,) for name in with_audio}
        return ShardsBefore(
            {name: manifest for name, manifest in found.items() if name in held}, sizes, why | new_audio
        )
