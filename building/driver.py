"""Bringing a data set up to date: compare what is wanted with what is there, run just what differs.

Level-triggered: what happened before does not matter, only what the output and the Dagster instance hold now. So a
build that was killed, shards that were copied from elsewhere and an instance that was wiped are all the same case.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

from assets.dataset_report import has_report
from assets.keys import DatasetKeys
from assets.loader_smoke_test import smoke_inputs
from assets.records import is_committed, newest_snapshot
from building.runs import Outcome, Runner
from building.terminal import TerminalProgress
from headrace.audit import has_true_sizes
from headrace.catalog_partitions import Work, partition_fingerprints, partition_work
from headrace.config import DatasetConfig, LatentsConfig
from headrace.manifests import NumberedManifest, file_sizes, newest_manifests, newest_summaries
from headrace.reconcile import latent_settings, plan_build, wanted_latents, wanted_partitions
from headrace.snapshots import NumberedSnapshot
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
        """Bring everything up to date; a stage with a fault is the last one. Returns the runs, in order."""
        self._scan()
        self._audio()
        for latents in self.config.latents:
            self._latents(latents)
        self._smoke_test()
        self._report()
        return self.runner.outcomes

    @property
    def _failed(self) -> bool:
        return any(outcome.faults for outcome in self.runner.outcomes)

    def _scan(self) -> None:
        if self.keys.catalog in self.selected:
            with self.progress.stage("scanning the source", {}, unit="new files"):
                self.runner.materialize(self.keys.catalog)

    def _audio(self) -> None:
        if self._failed:
            return
        built_from = self._build_audio()
        if self._failed and self._has_source_changed(built_from):
            self._build_audio()

    def _build_audio(self) -> str:
        """Bring the audio up to date with the stored catalog. Returns that catalog's digest."""
        catalog = self.storage.catalog(self.config)
        audio = self.storage.audio(self.config)
        wanted = wanted_partitions(partition_fingerprints(catalog.recordings, self.config), self.config)
        self._partitions(self.keys.audio_shards, audio, wanted, partition_work(catalog.recordings, self.config))
        self._index(self.keys.sizes_index, audio, catalog.digest, wanted)
        return catalog.digest

    def _has_source_changed(self, built_from: str) -> bool:
        """Whether a fault may be no fault at all: recordings changed while they were built. Then it is forgotten."""
        faults = self.runner.take_faults()
        self._scan()
        if not self._failed and self.storage.catalog(self.config).digest != built_from:
            return True
        self.runner.outcomes.extend(faults)
        return False

    def _latents(self, latents: LatentsConfig) -> None:
        audio = self.storage.audio(self.config)
        snapshot = None if self._failed else newest_snapshot(audio)
        if snapshot is None:
            return
        manifests = {
            name: found for name, found in newest_manifests(audio).items() if name in snapshot.snapshot.manifests
        }
        storage = self.storage.latents(self.config, latents.name)
        wanted = wanted_latents(manifests, latent_settings(latents))
        self._partitions(self.keys.latent_shards(latents.name), storage, wanted, _work(manifests))
        catalog = snapshot.snapshot.catalog
        self._index(self.keys.latents_index(latents.name), storage, catalog, wanted, snapshot.number)

    def _smoke_test(self) -> None:
        key = self.keys.loader_smoke_test
        snapshots = self._snapshots()
        if (
            snapshots is None
            or key not in self.selected
            or self.runner.records.is_made_from(key, smoke_inputs(self.config, snapshots))
        ):
            return
        total = sum(numbered.snapshot.num_samples for numbered in snapshots.values())
        with self.progress.stage("reading every sample back", {"all": Work(total, 0.0)}):
            self.runner.materialize(key)

    def _report(self) -> None:
        key = self.keys.dataset_report
        if key not in self.selected or self._snapshots() is None:
            return
        if not has_report(self.config, self.storage, self.runner.records):
            self.runner.materialize(key)

    def _snapshots(self) -> dict[str, NumberedSnapshot] | None:
        """The newest snapshot of every part; None when one is missing or a stage before had a fault."""
        found = {part: newest_snapshot(shards) for part, shards in self.storage.parts(self.config).items()}
        there = {part: snapshot for part, snapshot in found.items() if snapshot is not None}
        return there if len(there) == len(found) and not self._failed else None

    def _partitions(
        self, key: dg.AssetKey, storage: Storage, wanted: Mapping[str, str], work: Mapping[str, Work]
    ) -> None:
        """Materialize the partitions that are stale, or that the instance does not know as they are."""
        if key not in self.selected:
            return
        sizes = file_sizes(storage)
        manifests = newest_manifests(storage)
        damaged = {partition for partition, found in manifests.items() if not found.manifest.is_whole(sizes)}
        plan = plan_build(wanted, manifests, damaged)
        unrecorded = self.runner.records.unrecorded(key, plan.current)
        todo = [partition for partition in wanted if partition in plan.stale or partition in unrecorded]
        name = "/".join(key.path[1:])
        if not todo:
            self.progress.say(f"{name}: up to date")
            return
        with self.progress.stage(name, {name: work.get(name, Work(0, 0.0)) for name in todo}):
            for partition in todo:
                self.runner.materialize(key, partition)

    def _index(
        self,
        key: dg.AssetKey,
        storage: Storage,
        catalog: str,
        wanted: Mapping[str, str],
        audio_snapshot: int | None = None,
    ) -> None:
        """Commit the snapshot, unless the newest one is the state that the manifests make and is recorded as such.

        A `sizes.json` that does not say so is mended by the same step.
        """
        if key not in self.selected or self._failed:
            return
        newest = newest_snapshot(storage)
        plan = plan_build(wanted, newest_summaries(storage))
        if (
            newest is not None
            and is_committed(newest, catalog, plan.current, audio_snapshot)
            and self.runner.records.has_index(key, newest)
            and has_true_sizes(storage, newest.snapshot)
        ):
            return
        self.runner.materialize(key)


def _work(manifests: Mapping[str, NumberedManifest]) -> dict[str, Work]:
    """How much audio there is to encode."""
    return {
        name: Work(found.manifest.num_samples, sum(shard.seconds for shard in found.manifest.shards))
        for name, found in manifests.items()
    }
