"""Finds what a data set lacks: compares output and Dagster instance with what its YAML and catalog ask for.

Reads, and changes nothing. `headrace.assemble.reconcile` decides what is stale, as it does for `build.py`, and
`headrace.assemble.waves` decides what to start.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import dagster as dg

from headrace.assemble.centroids import with_centroids
from headrace.assemble.column_sets import rows_of_set, rows_of_texts
from headrace.assemble.latents import LatentSettings
from headrace.assemble.reconcile import latent_settings, wanted_columns, wanted_latents, wanted_partitions
from headrace.assemble.stages import Stage, StageKind, latents_by_part, stages_of
from headrace.assemble.staleness import BuildNeed, plan_build
from headrace.assemble.waves import PartitionWork
from headrace.catalog.stored.header import CatalogHeader, read_current_header
from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, HeadraceError, NotFoundError
from headrace.format.beside.views import VIEWS
from headrace.format.manifests.manifests import ManifestSummary
from headrace.format.snapshots.sizes_file import SIZES, has_true_sizes
from headrace.format.snapshots.snapshots import SNAPSHOTS, NumberedSnapshot, has_parts
from headrace.format.snapshots.summaries import newest_summaries
from headrace.locate.outputs import AUDIO
from headrace.stores.storage import Storage
from headrace_dagster.assets.dataset_report import REPORT_PATH, has_report
from headrace_dagster.assets.events import short_digest
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.assets.loader_smoke_test import smoke_inputs
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import AssetRecords, is_committed, newest_snapshot
from headrace_dagster.assets.superseded import file_version, input_version
from headrace_dagster.assets.views import has_view, waits
from headrace_dagster.resources.storage import StorageResource

_SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class DueWork:
    """Work that a data set needs to be up to date.

    Attributes:
        partitions: the work of each partition that is not up to date.
        finish: assets to materialize once all partitions are done, upstream first.
        token: identifies what these assets, or those of `rest`, are made from; empty if there are none.
        rest: while partitions lack no audio, the assets that are made without the sets that they lack, upstream first.
        hours: about how many hours of audio the partitions hold.
    """

    partitions: dict[str, PartitionWork]
    finish: tuple[dg.AssetKey, ...] = ()
    token: str = ""
    hours: float = 0.0
    rest: tuple[dg.AssetKey, ...] = ()


@dataclass(frozen=True, slots=True)
class _StageState:
    """One kind of shards: wanted and existing manifests, partitions to build, and since when shards are missing."""

    wanted: Mapping[str, str]
    found: Mapping[str, ManifestSummary]
    current: Mapping[str, ManifestSummary]
    todo: frozenset[str]
    missing: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class DueWorkReader:
    """Reads what one data set lacks.

    Attributes:
        dataset: the data set.
        storage: opens its folders.
        records: what the Dagster instance has recorded.
    """

    dataset: ProjectDataset
    storage: StorageResource
    records: AssetRecords

    @property
    def config(self) -> DatasetConfig:
        """The data set's YAML."""
        return self.dataset.config

    @property
    def keys(self) -> DatasetKeys:
        """The data set's asset keys."""
        return self.dataset.keys

    def outline(self) -> str:
        """A digest that changes whenever the output may have changed. Lists folders, and reads no file."""
        output = self.storage.output(self.config)
        files = [
            f"{name} {entry.path} {entry.num_bytes}"
            for name, shards in self.folders().items()
            for folder in ("manifests/", "snapshots/")
            for entry in shards.list(folder)
        ]
        files += [f"{name} {entry.path}" for name in self.config.views for entry in output.list(_snapshots_of(name))]
        files += [f"{name} {SIZES} {file_version(shards, SIZES)}" for name, shards in self.folders().items()]
        files.append(file_version(output, REPORT_PATH))
        settings = [str(self._settings(latents)) for latents in self.config.latents]
        return short_digest(self.input_version(), *settings, *files)

    def input_version(self) -> str:
        """See `headrace_dagster.assets.superseded.input_version`."""
        return input_version(self.config, self.storage.output(self.config))

    def folders(self) -> dict[str, Storage]:
        """The shard folder of each stage, upstream first."""
        return self.storage.folders(self.config)

    def read(self, missing: Callable[[str], Mapping[str, float]]) -> DueWork | None:
        """Find the due work, or None while the source has to be scanned first, see `read_current_header`.

        Args:
            missing: returns for a stage the partitions that lack shards, and since when.
        """
        catalog = read_current_header(self.storage.output(self.config), self.config)
        if catalog is None:
            return None
        wanted = wanted_partitions(catalog.fingerprints, self.config)
        audio = self._stage(AUDIO, wanted, missing)
        stages = {AUDIO: audio}
        ready = {name: found for name, found in audio.current.items() if name not in audio.todo}
        stages |= self._columns(catalog, ready, missing)
        latents = latents_by_part(self.config)
        settings = {part: self._settings(one) for part, one in latents.items()}
        for part, one in latents.items():
            stages[part] = self._stage(part, self._wanted_latents(ready, one, settings[part]), missing)
        unfitted = [part for part, found in settings.items() if found is None]
        fitted = {name: stage for name, stage in stages.items() if name not in unfitted}
        partitions = {name: work for name in audio.wanted if (work := _work(name, fitted)) is not None}
        if partitions:
            hours = catalog.seconds / _SECONDS_PER_HOUR * len(partitions) / len(audio.wanted)
            untrue, others = self._rest(catalog.digest, partitions, stages)
            rest = self._fitted_first([*untrue, *others], unfitted) if untrue or others else ()
            token = self._finish_token(catalog.digest, stages, untrue) if rest else ""
            finish = self._fitted_first(self._after(partitions, stages), unfitted)
            return DueWork(partitions, finish, token, hours, rest)
        untrue, lacking = self._lacking(catalog.digest, stages)
        finish = self._fitted_first([*untrue, *lacking], unfitted)
        return DueWork({}, finish, self._finish_token(catalog.digest, stages, untrue))

    def _wanted_latents(
        self, audio: Mapping[str, ManifestSummary], latents: LatentsConfig, settings: LatentSettings | str | None
    ) -> dict[str, str]:
        """`wanted_latents`; nothing before centroids are fitted, or while the table of their texts was never valid.

        If the encoder cannot be loaded, they are stale as long as the reason is the same: their run fails with it.
        """
        if settings is None or isinstance(settings, str):
            return dict.fromkeys(audio, settings) if settings else {}
        try:
            rows = rows_of_texts(self.storage.output(self.config), self.config, latents)
        except CatalogError:
            return {}
        return wanted_latents(audio, settings, rows)

    def _settings(self, latents: LatentsConfig) -> LatentSettings | str | None:
        """The settings of latents; None before centroids are fitted; the reason if the encoder cannot be loaded."""
        try:
            frozen = with_centroids(latents, self.storage.latents(self.config, latents.name))
        except NotFoundError:
            return None
        except HeadraceError as error:
            return str(error)
        try:
            return latent_settings(frozen)
        except HeadraceError as error:
            return str(error)

    def _fitted_first(self, assets: Sequence[dg.AssetKey], unfitted: Sequence[str]) -> tuple[dg.AssetKey, ...]:
        """The assets, with the centroids of unfitted stages in place of what is made with them."""
        if not unfitted:
            return tuple(assets)
        later = {*map(self._index, unfitted), self.keys.loader_smoke_test, self.keys.dataset_report}
        fitted = [self.keys.centroids(self._stages[part].name) for part in unfitted]
        return (*(key for key in assets if key not in later), *fitted)

    def assets_of(self, stages: Sequence[str]) -> list[dg.AssetKey]:
        """The partitioned assets of some stages."""
        return [self.keys.shards(self._stages[stage]) for stage in stages]

    def _index(self, stage: str) -> dg.AssetKey:
        """The asset that commits the snapshot of a stage."""
        return self.keys.index(self._stages[stage])

    @property
    def _stages(self) -> dict[str, Stage]:
        """All stages by `Stage.part`."""
        return {stage.part: stage for stage in stages_of(self.config)}

    def last_assets(self, stages: Iterable[str] | None = None) -> list[dg.AssetKey]:
        """The assets that are materialized once all partitions of these stages, or of all, are done, upstream first."""
        return [
            *map(self._index, self.folders() if stages is None else stages),
            *self._views(),
            self.keys.loader_smoke_test,
            self.keys.dataset_report,
        ]

    def _views(self) -> list[dg.AssetKey]:
        """The views that do not wait for the table of an optional set of columns."""
        output = self.storage.output(self.config)
        return [self.keys.view(name) for name in self.config.views if not waits(self.dataset, output, name)]

    def _after(self, partitions: Mapping[str, PartitionWork], stages: Iterable[str]) -> list[dg.AssetKey]:
        """The assets that follow the work of partitions. Columns alone change neither other snapshots nor samples."""
        worked = {stage for work in partitions.values() for stage in work.stages}
        if all(map(_is_columns, worked)):
            indexes = [self._index(stage) for stage in stages if stage in worked]
            return [*indexes, *self._views(), self.keys.dataset_report]
        return self.last_assets(stages)

    def _columns(
        self,
        catalog: CatalogHeader,
        audio: Mapping[str, ManifestSummary],
        missing: Callable[[str], Mapping[str, float]],
    ) -> dict[str, _StageState]:
        """The stages of the sets of columns; a set whose table was never valid has none.

        If a feature cannot be loaded, its columns are stale as long as the reason is the same: their run fails with it.
        """
        output, stages = self.storage.output(self.config), {}
        for stage in stages_of(self.config, StageKind.COLUMNS):
            try:
                rows = rows_of_set(output, catalog, stage.name, self.config)
            except HeadraceError as error:
                rows = dict.fromkeys(catalog.partitions, str(error))
            if rows is not None:
                stages[stage.part] = self._stage(stage.part, wanted_columns(audio, rows), missing)
        return stages

    def _stage(
        self, name: str, wanted: Mapping[str, str], missing: Callable[[str], Mapping[str, float]]
    ) -> _StageState:
        lacking, found = missing(name), newest_summaries(self.folders()[name])
        plan = plan_build(wanted, found, lacking)
        (key,) = self.assets_of([name])
        todo = frozenset(plan.stale) | self.records.unrecorded(key, plan.current)
        since = {name: lacking[name] for name, need in plan.stale.items() if need == BuildNeed.DAMAGED}
        return _StageState(wanted, found, plan.current, todo, since)

    def _lacking(self, catalog: str, stages: Mapping[str, _StageState]) -> tuple[list[dg.AssetKey], list[dg.AssetKey]]:
        """The indexes that have only a `sizes.json` or a table of shards to restore, and the assets not up to date.

        Without the stage of a set of columns, views that need it are left out; without one of latents, the smoke test,
        which joins all sets.
        """
        lacking, untrue, snapshots = self._lacking_before_the_smoke_test(catalog, stages)
        smoke, report = self.keys.loader_smoke_test, self.keys.dataset_report
        columns = {*map(self.keys.view, self.config.views)}
        columns |= {*map(self.keys.index, stages_of(self.config, StageKind.COLUMNS))}
        has_latents = latents_by_part(self.config).keys() <= stages.keys()
        if has_latents and (
            not columns.issuperset(lacking)
            or not self.records.is_made_from(smoke, smoke_inputs(self.config, snapshots))
        ):
            lacking.append(smoke)
        if lacking or not has_report(self.dataset, self.storage, self.records):
            lacking.append(report)
        return untrue, lacking

    def _lacking_before_the_smoke_test(
        self, catalog: str, stages: Mapping[str, _StageState]
    ) -> tuple[list[dg.AssetKey], list[dg.AssetKey], dict[str, NumberedSnapshot]]:
        """The snapshots of stages and the views that are not up to date.

        Returns:
            The assets that commit them; the assets whose snapshot is current, but whose `sizes.json` or table of
            shards is missing or wrong, of which nothing else is made; and the current snapshots by part.
        """
        lacking: list[dg.AssetKey] = []
        untrue: list[dg.AssetKey] = []
        snapshots: dict[str, NumberedSnapshot] = {}
        number: int | None = None
        folders = self.folders()
        for stage in stages:
            key, shards = self._index(stage), folders[stage]
            newest = newest_snapshot(shards)
            is_done = is_committed(newest, catalog, stages[stage].current, number)
            if newest is None or not is_done or not self.records.has_index(key, newest):
                lacking.append(key)
            else:
                is_whole = has_parts(shards, newest.snapshot) and has_true_sizes(shards, newest.snapshot)
                untrue += [] if is_whole else [key]
                snapshots |= {} if _is_columns(stage) else {stage: newest}
            if stage == AUDIO and newest is not None:
                number = newest.number
        output, latents = self.storage.output(self.config), {self._index(part) for part in latents_by_part(self.config)}
        is_changed = not latents.issuperset(lacking)
        absent = [stage.name for part, stage in self._stages.items() if _is_columns(part) and part not in stages]
        lacking += [
            self.keys.view(name)
            for name in self.config.views
            if not waits(self.dataset, output, name, absent)
            and (is_changed or not has_view(self.dataset, output, name, self.records))
        ]
        return lacking, untrue, snapshots

    def _rest(
        self, catalog: str, partitions: Mapping[str, PartitionWork], stages: Mapping[str, _StageState]
    ) -> tuple[list[dg.AssetKey], list[dg.AssetKey]]:
        """`_lacking` of assets that need no set which partitions lack; nothing if they lack audio."""
        lacking = {stage for work in partitions.values() for stage in work.stages}
        if AUDIO in lacking:
            return [], []
        return self._lacking(catalog, {name: stage for name, stage in stages.items() if name not in lacking})

    def _finish_token(self, catalog: str, stages: Mapping[str, _StageState], untrue: Iterable[dg.AssetKey] = ()) -> str:
        """Digest of what the last assets are made from. A file that is lost again is other work than the first time."""
        numbers = [f"{stage} {name} {n.number}" for stage, s in stages.items() for name, n in s.current.items()]
        snapshots = [newest_snapshot(shards) for shards in self.folders().values()]
        committed = [str(newest.number) if newest else "" for newest in snapshots]
        written = [self.records.last_run(key) for key in untrue]
        return short_digest(catalog, self.config.model_dump_json(), *numbers, *committed, *written)


def _work(partition: str, stages: Mapping[str, _StageState]) -> PartitionWork | None:
    """Due work of one partition, if any. If its audio is stale, so are all latents, which are made from the audio."""
    if partition in stages[AUDIO].todo:
        lacking = list(stages)
    else:
        lacking = [name for name, stage in stages.items() if partition in stage.todo]
    if not lacking:
        return None
    marks = [f"{name} {stages[name].wanted.get(partition, '')} {_base(stages[name], partition)}" for name in lacking]
    marks += [f"{name} {stages[name].missing[partition]}" for name in lacking if partition in stages[name].missing]
    is_missing = any(partition in stages[name].missing for name in lacking)
    cheap = list(takewhile(_is_columns, lacking[1:]))
    return PartitionWork(
        tuple(lacking),
        short_digest(partition, *marks),
        str(BuildNeed.DAMAGED) if is_missing else None,
        num_together=1 + len(cheap) if lacking[0] == AUDIO else len(lacking),
    )


def _snapshots_of(view: str) -> str:
    return f"{VIEWS}/{view}/{SNAPSHOTS}"


def _is_columns(stage: str) -> bool:
    return stage.startswith(f"{StageKind.COLUMNS} ")


def _base(stage: _StageState, partition: str) -> int:
    """Number of the manifest that the wanted one replaces, or has replaced when only its checks are missing.

    It is part of the token: a change that is undone and made again later starts a new series of attempts.
    """
    found = stage.found.get(partition)
    return 0 if found is None else found.number - (partition in stage.current)
