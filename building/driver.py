"""Bringing a data set up to date: compare what is wanted with what is there, run just what differs.

Level-triggered: what happened before does not matter, only what the output and the Dagster instance hold now. So a build
that was killed, a shard folder that was copied from elsewhere and an instance that was wiped are all the same case.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from assets.keys import DatasetKeys
from building.records import is_recorded, unrecorded_partitions
from building.runs import Outcome, Runner
from building.terminal import TerminalProgress
from headrace.catalog import Catalog
from headrace.catalog_update import existing_catalog
from headrace.config import DatasetConfig
from headrace.errors import NotFoundError
from headrace.manifests import newest_manifests
from headrace.reconcile import Work, is_current, partition_work, plan_build, wanted_partitions
from headrace.snapshots import Snapshot, read_snapshot
from headrace.storage import Storage
from resources.storage import StorageResource


@dataclass(frozen=True, slots=True)
class Build:
    """One build of one data set.

    Attributes:
        config: the data set.
        runner: runs assets.
        storage: opens its folders.
        progress: shows how far it is.
        selected: the assets to bring up to date; others are left as they are.
    """

    config: DatasetConfig
    runner: Runner
    storage: StorageResource
    progress: TerminalProgress
    selected: frozenset[dg.AssetKey]

    @property
    def keys(self) -> DatasetKeys:
        """The data set's asset keys."""
        return DatasetKeys(self.config.name)

    def run(self) -> list[Outcome]:
        """Bring everything up to date; stops at the first stage with a fault. Returns the runs, in order."""
        stages = (self._scan, self._audio)
        for stage in stages:
            stage()
            if any(outcome.faults for outcome in self.runner.outcomes):
                break
        return self.runner.outcomes

    def _scan(self) -> None:
        if self.keys.catalog in self.selected:
            with self.progress.stage("scanning the source", {}, unit="new files"):
                self.runner.materialize(self.keys.catalog)

    def _audio(self) -> None:
        catalog = existing_catalog(self.storage.output(self.config))
        wanted = wanted_partitions(catalog.recordings, self.config)
        audio = self.storage.audio(self.config)
        work = partition_work(catalog.recordings, self.config)
        if self._partitions(self.keys.audio_shards, audio, wanted, work):
            self._index(self.keys.sizes_index, audio, catalog, wanted)

    def _partitions(
        self, key: dg.AssetKey, storage: Storage, wanted: Mapping[str, str], work: Mapping[str, Work]
    ) -> bool:
        """Materialize the partitions that are stale or not recorded. Returns whether all is well."""
        if key not in self.selected:
            return True
        plan = plan_build(wanted, newest_manifests(storage))
        unrecorded = unrecorded_partitions(
            self.runner.instance, key, self.runner.checks_of(key), plan.current
        )
        todo = [partition for partition in wanted if partition in plan.stale or partition in unrecorded]
        sizes = {partition: work.get(partition, Work(0, 0.0)) for partition in todo}
        with self.progress.stage("/".join(key.path[1:]), sizes):
            outcomes = [self.runner.materialize(key, partition) for partition in todo]
        return not any(outcome.faults for outcome in outcomes)

    def _index(self, key: dg.AssetKey, storage: Storage, catalog: Catalog, wanted: Mapping[str, str]) -> None:
        """Commit the snapshot if the newest one is not the state that the manifests make, or is not recorded."""
        if key not in self.selected:
            return
        plan = plan_build(wanted, newest_manifests(storage))
        newest = newest_snapshot(storage)
        if newest is not None and is_current(newest, catalog.digest, plan.current):
            if is_recorded(self.runner.instance, key, self.runner.checks_of(key), newest.fingerprint[:32]):
                return
        self.runner.materialize(key)


def newest_snapshot(storage: Storage) -> Snapshot | None:
    """The newest snapshot, or None."""
    try:
        return read_snapshot(storage).snapshot
    except NotFoundError:
        return None
