"""Brings a data set up to date: compares what is wanted with what exists, and runs the assets that differ.

Only the present state of the output and of the Dagster instance matters, not how it came about. So a build that was
killed, shards that were copied from another machine and an instance that was wiped need no cases of their own.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import dagster as dg

from headrace.assemble.centroids import newest_centroids, with_centroids
from headrace.assemble.changes import ShardsBefore
from headrace.assemble.column_sets import rows_of_set, rows_of_texts
from headrace.assemble.partition_columns import ColumnSettings, columns_source
from headrace.assemble.reconcile import (
    latent_settings,
    latent_sources,
    shard_settings,
    wanted_partitions,
)
from headrace.assemble.run_groups import grouped
from headrace.assemble.staleness import plan_build
from headrace.assemble.unchanged_shards import unchanged_manifests
from headrace.catalog.stored.header import CatalogHeader, read_current_header
from headrace.catalog.stored.partitions import PartitionSize, partition_sizes
from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.encoders.kmeans import parsed_settings
from headrace.errors import ConfigError, HeadraceError, MissingDependencyError, NotFoundError
from headrace.format.manifests.manifests import ManifestSummary
from headrace.format.snapshots.sizes_file import has_true_sizes
from headrace.format.snapshots.snapshots import FrozenPartition, NumberedSnapshot, lost_parts
from headrace.format.snapshots.summaries import newest_summaries
from headrace.stores.storage import Storage
from headrace_dagster.assets.dataset_report import has_report
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.loader_smoke_test import smoke_inputs, tested_snapshots
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import is_committed, newest_snapshot
from headrace_dagster.assets.views import has_view, waits
from headrace_dagster.build_command.ledger import Ledger
from headrace_dagster.build_command.runs import Runner, RunOutcome
from headrace_dagster.build_command.shard_parts import ShardPart
from headrace_dagster.build_command.terminal import TerminalProgress
from headrace_dagster.resources.storage import StorageResource


@dataclass(frozen=True, slots=True)
class DatasetBuild:
    """One build of one data set.

    Attributes:
        dataset: the data set.
        runner: runs assets.
        storage: opens its folders.
        progress: shows the progress.
        selected: the assets to bring up to date; others stay as they are.
        ledger: records the state of each kind of shards before it is built.
        listed: URI of a shard folder → the number of runs when its manifests were listed, and their summaries.
    """

    dataset: ProjectDataset
    runner: Runner
    storage: StorageResource
    progress: TerminalProgress
    selected: frozenset[dg.AssetKey]
    ledger: Ledger
    listed: dict[str, tuple[int, dict[str, ManifestSummary]]] = field(default_factory=dict)

    @property
    def config(self) -> DatasetConfig:
        """The data set's YAML."""
        return self.dataset.config

    @property
    def keys(self) -> DatasetKeys:
        """The data set's asset keys."""
        return self.dataset.keys

    def run(self) -> list[RunOutcome]:
        """Bring the selected assets up to date, and stop after a stage that failed. Returns the runs, in order.

        A source that is gone stops only partitions that need a recording, if there is a catalog. A set of latents or a
        feature that fails stops only itself: the smoke test is that of the rest. A view that fails stops nothing.
        """
        self._scan()
        faults = self.runner.take_faults() if self._is_source_gone() else []
        self._audio()
        if not self._has_failed():
            self._follow()
        self.runner.outcomes.extend(faults)
        return self.runner.outcomes

    def _follow(self) -> None:
        """Bring up to date what is made from the audio."""
        self._latents()
        before = len(self.runner.outcomes)
        self._smoke_test()
        if any(outcome.stops for outcome in self.runner.outcomes[before:]):
            return
        for view in self.config.views:
            self._view(view)
        self._report()

    def not_made(self) -> Iterator[RunOutcome]:
        """A fault for each selected asset that was never made and needs another one, which was not selected.

        To be asked after `run`.
        """
        awaited = {self.keys.columns_index(one.name) for one in self.config.columns if one.optional}
        left_out = {*self.runner.keys()} - self.selected - awaited
        if not left_out or self._has_failed():
            return
        reached = {outcome.key for outcome in self.runner.outcomes}
        of_shards = {self.keys.columns(name) for name in self.config.column_sets}
        has_no_audio = newest_snapshot(self.storage.audio(self.config)) is None
        for key in sorted(one for one in self.selected - reached if not self.runner.records.last_run(one)):
            needed = self.runner.lacking(key)
            if has_no_audio and key not in of_shards:
                needed = [*self.runner.lacking(self.keys.sizes_index), self.keys.sizes_index]
            if lacking := [one for one in needed if one in left_out]:
                names = ", ".join("/".join(one.path[1:]) for one in lacking)
                yield RunOutcome(key, None, "", (f"not made, because it needs {names}; select it, too",), 0.0)

    def _has_failed(self) -> bool:
        """Whether something failed that others are made from; a feature stops only itself."""
        features = {self.keys.columns(one.name) for one in self.config.features}
        return any(outcome.stops and outcome.key not in features for outcome in self.runner.outcomes)

    def _fails(self, key: dg.AssetKey) -> bool:
        return any(outcome.stops and outcome.key == key for outcome in self.runner.outcomes)

    def _scan(self) -> None:
        if self.keys.catalog in self.selected:
            with self.progress.stage("scanning the source", {}, unit="new files"):
                self.runner.materialize(self.keys.catalog)

    def _is_source_gone(self) -> bool:
        """Whether the scan failed because there is no source, and the catalog of an earlier scan is there."""
        if not self._has_failed() or read_current_header(self.storage.output(self.config), self.config) is None:
            return False
        try:
            self.storage.source(self.config)
        except ConfigError:
            return True
        return False

    def _audio(self) -> None:
        if self._has_failed():
            return
        built_from = self._build_audio()
        if self._has_failed() and self._has_source_changed(built_from):
            self._build_audio()

    def _build_audio(self) -> str:
        """Bring the audio up to date with the stored catalog. Returns that catalog's digest."""
        catalog = self.storage.catalog(self.config).header
        audio = self.storage.audio(self.config)
        fingerprints = catalog.fingerprints
        wanted = wanted_partitions(fingerprints, self.config)
        part = ShardPart(self.keys.audio_shards, audio, shard_settings(self.config), fingerprints)
        self._partitions(part, partition_sizes(catalog), self._column_parts(catalog).values())
        columns = self._column_parts(catalog)
        for joined in columns.values():
            if not self._has_failed() and not self._fails(joined.key):
                self._partitions(joined, partition_sizes(catalog))
        columns = {name: one for name, one in columns.items() if not self._fails(one.key)}
        if not self._has_failed():
            also = [key for name in columns if (key := self.keys.columns_index(name)) in self.selected]
            self._index(self.keys.sizes_index, audio, catalog.digest, wanted, also=also)
        snapshot = None if self._has_failed() else newest_snapshot(audio)
        for name, joined in columns.items():
            if snapshot is not None:
                key = self.keys.columns_index(name)
                self._index(key, joined.storage, snapshot.snapshot.catalog, joined.wanted, snapshot.number)
        return catalog.digest

    def _column_parts(self, catalog: CatalogHeader) -> dict[str, ShardPart]:
        """The sets of columns whose rows are known, by name, for the newest audio manifests."""
        output, audio = self.storage.output(self.config), self._summaries(self.storage.audio(self.config))
        parts = {}
        for name in self.config.column_sets:
            key = self.keys.columns(name)
            try:
                rows = None if self._fails(key) else rows_of_set(output, catalog, name, self.config)
            except MissingDependencyError as error:  # a feature whose model is not installed stops itself alone
                self.runner.outcomes.append(RunOutcome(key, None, "", (str(error),), 0.0, stops=True))
                continue
            if rows is not None:
                there = {partition: audio[partition].digest for partition in rows if partition in audio}
                sources = {partition: columns_source(digest, rows[partition]) for partition, digest in there.items()}
                storage = self.storage.columns(self.config, name)
                parts[name] = ShardPart(key, storage, ColumnSettings(), sources)
        return parts

    def _has_source_changed(self, built_from: str) -> bool:
        """Whether the source changed while it was built, which explains the faults. Then the faults are dropped.

        Scans the source again to find out.
        """
        faults = self.runner.take_faults()
        self._scan()
        if not self._has_failed() and self.storage.catalog(self.config).header.digest != built_from:
            return True
        self.runner.outcomes.extend(faults)
        return False

    def _latents(self) -> None:
        """Bring the sets of latents up to date, whether others have failed or not; those of audio together."""
        snapshot = newest_snapshot(self.storage.audio(self.config))
        if snapshot is None:
            return
        ready = [(one, part) for one in self.config.latents if (part := self._latent_part(one, snapshot)) is not None]
        work = _work(snapshot.snapshot.partitions)
        of_audio = [part for one, part in ready if not one.column]
        if len(of_audio) > 1:
            self._sets_together(of_audio, work)
        for one, part in ready:
            if len(of_audio) < 2 or one.column:
                self._partitions(part, work)
            if not self._fails(part.key):
                key = self.keys.latents_index(one.name)
                self._index(key, part.storage, snapshot.snapshot.catalog, part.wanted, snapshot.number)

    def _latent_part(self, latents: LatentsConfig, snapshot: NumberedSnapshot) -> ShardPart | None:
        """A set of latents, whose centroids are fitted first; None if they cannot be."""
        manifests, before = self._summaries(self.storage.audio(self.config)), len(self.runner.outcomes)
        manifests = {name: manifests[name] for name in snapshot.snapshot.partitions if name in manifests}
        storage = self.storage.latents(self.config, latents.name)
        key = self.keys.latent_shards(latents.name)
        try:
            self._fit_centroids(latents, storage)
            if any(outcome.stops for outcome in self.runner.outcomes[before:]):
                return None
            settings = latent_settings(with_centroids(latents, storage))
            sources = latent_sources(manifests, rows_of_texts(self.storage.output(self.config), self.config, latents))
        except NotFoundError:  # centroids that `--select` leaves out
            return None
        except HeadraceError as error:  # an encoder that cannot be loaded stops its set alone
            self.runner.outcomes.append(RunOutcome(key, None, "", (str(error),), 0.0, stops=True))
            return None
        return ShardPart(key, storage, settings, sources)

    def _sets_together(self, parts: Sequence[ShardPart], work: Mapping[str, PartitionSize]) -> None:
        """Materialize the stale partitions of several sets of latents, each in one run for all sets that lack it."""
        lacking: dict[str, tuple[dg.AssetKey, ...]] = {}
        for part in parts:
            before = self._put_down(part)
            for name in before.why if before is not None else ():
                lacking[name] = (*lacking.get(name, ()), part.key)
        kinds = {name: lacking[name] for name in work if name in lacking}
        for names in grouped(kinds, list(kinds), len(kinds)):  # a line for each series of the same sets
            first, *others = kinds[names[0]]
            sizes = {
                name: PartitionSize((1 + len(others)) * work[name].num_samples, work[name].seconds) for name in names
            }
            with self.progress.stage(", ".join(key.path[-1] for key in (first, *others)), sizes):
                self._materialize_groups(first, names, others)

    def _fit_centroids(self, latents: LatentsConfig, storage: Storage) -> None:
        """Fit the centroids of units, unless they are there: a change of the data does not change them."""
        key = self.keys.centroids(latents.name)
        if not latents.fits_centroids or key not in self.selected:
            return
        if newest_centroids(storage, parsed_settings(latents.encoder.settings)) is None:
            with self.progress.stage(key.path[-1], {}, unit="centroids"):
                self.runner.materialize(key)

    def _smoke_test(self) -> None:
        key = self.keys.loader_smoke_test
        if key not in self.selected:
            return
        snapshots = self._snapshots()
        if snapshots is None or self.runner.records.is_made_from(key, smoke_inputs(self.config, snapshots)):
            return
        total = sum(numbered.snapshot.num_samples for numbered in snapshots.values())
        with self.progress.stage("reading samples back", {"all": PartitionSize(total, 0.0)}, unit="samples at most"):
            self.runner.materialize(key)

    def _view(self, name: str) -> None:
        """Evaluate a view, unless it is up to date with audio, columns and YAML."""
        key = self.keys.view(name)
        if key not in self.selected:
            return
        output = self.storage.output(self.config)
        if not waits(self.dataset, output, name) and not has_view(self.dataset, output, name, self.runner.records):
            self.runner.materialize(key)

    def _report(self) -> None:
        key = self.keys.dataset_report
        if key not in self.selected or newest_snapshot(self.storage.audio(self.config)) is None:
            return
        if not has_report(self.dataset, self.storage, self.runner.records):
            self.runner.materialize(key)

    def _summaries(self, storage: Storage) -> dict[str, ManifestSummary]:
        """`newest_summaries` of a shard folder. They are listed again after a run, which may have made others."""
        now = self.runner.num_runs
        when, found = self.listed.get(storage.uri, (-1, {}))
        if when != now:
            found = newest_summaries(storage)
            self.listed[storage.uri] = now, found
        return found

    def _snapshots(self) -> dict[str, NumberedSnapshot] | None:
        """The snapshots that the smoke test reads; None if latents are missing, and none has failed.

        Then they were not selected, and there is no rest to test.
        """
        if newest_snapshot(self.storage.audio(self.config)) is None:
            return None
        found = tested_snapshots(self.config, self.storage)
        return found if self._has_failed() or len(found) == len(self.storage.parts(self.config)) else None

    def _partitions(self, part: ShardPart, work: Mapping[str, PartitionSize], also: Iterable[ShardPart] = ()) -> None:
        """Materialize the partitions that are stale, or that the instance has not recorded in their present state.

        Args:
            part: the shards.
            work: partition → its size.
            also: columns that are joined to them, in the same run.
        """
        before = self._put_down(part)
        if before is None:
            return
        joined = [other for other in also if other.key in self.selected]
        for other in joined:
            self.ledger.put_down(other.key, other.storage, other.before(self.runner.records, before.why), part.sources)
        with self.progress.stage(
            part.key.path[-1], {name: work.get(name, PartitionSize(0, 0.0)) for name in before.why}
        ):
            self._materialize_groups(part.key, before.why, [other.key for other in joined])

    def _materialize_groups(self, key: dg.AssetKey, partitions: Iterable[str], also: Sequence[dg.AssetKey]) -> None:
        """Materialize partitions in runs of as many as a run may have."""
        layout, most = self.config.partitioning().partition_keys(), self.config.runs.partitions_per_run
        for names in grouped(dict.fromkeys(partitions), layout, most):
            self.runner.materialize_partitions(key, names, also)

    def _put_down(self, part: ShardPart) -> ShardsBefore | None:
        """Record the state of shards in the ledger; None if they are not selected, or up to date and recorded."""
        if part.key not in self.selected:
            return None
        current = unchanged_manifests(part.storage, part.wanted, self._summaries(part.storage))
        if current is not None and not self.runner.records.unrecorded(part.key, current):
            return None
        before = part.before(self.runner.records)
        self.ledger.put_down(part.key, part.storage, before, part.sources)
        return before if before.why else None

    def _index(  # noqa: PLR0913, PLR0917 - what is committed, and what it is made from
        self,
        key: dg.AssetKey,
        storage: Storage,
        catalog: str,
        wanted: Mapping[str, str],
        audio_snapshot: int | None = None,
        also: Sequence[dg.AssetKey] = (),
    ) -> None:
        """Commit the snapshot, unless the newest one has exactly these manifests and the instance has recorded it.

        The same step repairs `sizes.json` and the table of shards of the newest snapshot. If it is needed, `also` are
        committed in the same run.
        """
        if key not in self.selected:
            return
        newest = newest_snapshot(storage)
        plan = plan_build(wanted, self._summaries(storage))
        if (
            newest is not None
            and is_committed(newest, catalog, plan.current, audio_snapshot)
            and self.runner.records.has_index(key, newest)
            and has_true_sizes(storage, newest.snapshot)
            and not lost_parts(storage, newest.snapshot)
        ):
            return
        self.runner.materialize(key, also=also)


def _work(partitions: Mapping[str, FrozenPartition]) -> dict[str, PartitionSize]:
    """Samples and seconds of audio in each partition of a snapshot."""
    return {name: PartitionSize(found.num_samples, found.seconds) for name, found in partitions.items()}
