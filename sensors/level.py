"""What a data set lacks now: output and Dagster instance compared with what its YAML and catalog ask for.

Owns reading that level; `headrace.reconcile` says what is stale, as it does for `build.py`, and `headrace.waves` what
to start. Reads only.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import dagster as dg

from assets.dataset_report import has_report
from assets.events import short_digest
from assets.keys import DatasetKeys
from assets.loader_smoke_test import smoke_inputs
from assets.records import Records, is_committed, newest_snapshot
from headrace.catalog_summary import CATALOG_FOLDER, read_summary
from headrace.config import DatasetConfig
from headrace.manifests import ManifestSummary, newest_summaries
from headrace.reconcile import latent_settings, plan_build, wanted_latents, wanted_partitions
from headrace.storage import Storage
from headrace.waves import PartitionWork
from resources.storage import StorageResource

_SECONDS_PER_HOUR = 3600.0
AUDIO = "audio"
"""The first stage of a partition; the others have the names of latents."""


@dataclass(frozen=True, slots=True)
class Level:
    """What a data set lacks.

    Attributes:
        partitions: partitions that are not as they should be.
        finish: assets to make once all partitions are done, upstream first.
        token: of what they are made from, once all partitions are done.
        hours: about how much audio the partitions hold.
    """

    partitions: dict[str, PartitionWork]
    finish: tuple[dg.AssetKey, ...] = ()
    token: str = ""
    hours: float = 0.0


@dataclass(frozen=True, slots=True)
class _Stage:
    """One kind of shards: what each partition should be, and what it is."""

    wanted: Mapping[str, str]
    found: Mapping[str, ManifestSummary]
    current: Mapping[str, ManifestSummary]
    todo: frozenset[str]


@dataclass(frozen=True, slots=True)
class LevelReader:
    """Reads the level of one data set.

    Attributes:
        config: the data set.
        storage: opens its folders.
        records: what Dagster knows.
    """

    config: DatasetConfig
    storage: StorageResource
    records: Records

    @property
    def keys(self) -> DatasetKeys:
        """The data set's asset keys."""
        return DatasetKeys(self.config.name)

    def outline(self) -> str:
        """A digest that changes whenever the output may have; costs listings, and reads no file."""
        output = self.storage.output(self.config)
        catalog = [f"{entry.path} {entry.num_bytes} {entry.modified_seconds}" for entry in output.list(CATALOG_FOLDER)]
        parts = self.storage.parts(self.config).items()
        files = [
            f"{name} {entry.path}"
            for name, shards in parts
            for folder in ("manifests/", "snapshots/")
            for entry in shards.list(folder)
        ]
        settings = [str(latent_settings(latents)) for latents in self.config.latents]
        return short_digest(self.config.model_dump_json(), *settings, *catalog, *files)

    def read(self) -> Level | None:
        """The level; None while a scan has to come first, see `read_summary`."""
        catalog = read_summary(self.storage.output(self.config), self.config)
        if catalog is None:
            return None
        wanted = wanted_partitions(catalog.fingerprints, self.config)
        audio = self._stage(self.keys.audio_shards, self.storage.audio(self.config), wanted)
        stages = {AUDIO: audio}
        ready = {name: found for name, found in audio.current.items() if name not in audio.todo}
        for latents in self.config.latents:
            wanted = wanted_latents(ready, latent_settings(latents))
            shards = self.storage.latents(self.config, latents.name)
            stages[latents.name] = self._stage(self.keys.latent_shards(latents.name), shards, wanted)
        partitions = {name: work for name in audio.wanted if (work := _work(name, stages)) is not None}
        if partitions:
            hours = catalog.seconds / _SECONDS_PER_HOUR * len(partitions) / len(audio.wanted)
            return Level(partitions, tuple(self.last_assets()), hours=hours)
        return Level({}, tuple(self._lacking(catalog.digest, stages)), self._finish_token(catalog.digest, stages))

    def assets_of(self, stages: Sequence[str]) -> list[dg.AssetKey]:
        """The partitioned assets of some stages."""
        return [self.keys.audio_shards if stage == AUDIO else self.keys.latent_shards(stage) for stage in stages]

    def last_assets(self) -> list[dg.AssetKey]:
        """What is made once per wave, upstream first."""
        indexes = [self.keys.latents_index(latents.name) for latents in self.config.latents]
        return [self.keys.sizes_index, *indexes, self.keys.loader_smoke_test, self.keys.dataset_report]

    def _stage(self, key: dg.AssetKey, shards: Storage, wanted: Mapping[str, str]) -> _Stage:
        found = newest_summaries(shards)
        plan = plan_build(wanted, found)
        return _Stage(wanted, found, plan.current, frozenset(plan.stale) | self.records.unrecorded(key, plan.current))

    def _lacking(self, catalog: str, stages: Mapping[str, _Stage]) -> list[dg.AssetKey]:
        """The unpartitioned assets that are not what the partitions make."""
        lacking = []
        snapshots = {}
        number: int | None = None
        for stage, (part, shards) in zip(stages, self.storage.parts(self.config).items(), strict=True):
            key = self.keys.sizes_index if stage == AUDIO else self.keys.latents_index(stage)
            newest = newest_snapshot(shards)
            is_done = is_committed(newest, catalog, stages[stage].current, number)
            if newest is None or not is_done or not self.records.has_index(key, newest):
                lacking.append(key)
            else:
                snapshots[part] = newest
            if stage == AUDIO and newest is not None:
                number = newest.number
        smoke, report = self.keys.loader_smoke_test, self.keys.dataset_report
        if lacking or not self.records.is_made_from(smoke, smoke_inputs(self.config, snapshots)):
            lacking.append(smoke)
        if lacking or not has_report(self.config, self.storage, self.records):
            lacking.append(report)
        return lacking

    def _finish_token(self, catalog: str, stages: Mapping[str, _Stage]) -> str:
        numbers = [f"{stage} {name} {n.number}" for stage, s in stages.items() for name, n in s.current.items()]
        snapshots = [newest_snapshot(shards) for shards in self.storage.parts(self.config).values()]
        committed = [str(newest.number) if newest else "" for newest in snapshots]
        return short_digest(catalog, self.config.model_dump_json(), *numbers, *committed)


def _work(partition: str, stages: Mapping[str, _Stage]) -> PartitionWork | None:
    """What one partition lacks; all latents follow its audio, which they are made from."""
    if partition in stages[AUDIO].todo:
        lacking = list(stages)
    else:
        lacking = [name for name, stage in stages.items() if partition in stage.todo]
    if not lacking:
        return None
    marks = [f"{name} {stages[name].wanted.get(partition, '')} {_base(stages[name], partition)}" for name in lacking]
    return PartitionWork(tuple(lacking), short_digest(partition, *marks))


def _base(stage: _Stage, partition: str) -> int:
    """The manifest that the wanted one replaces, or has replaced when only its checks are missing.

    A change that comes back later replaces another one, so it is not taken for more of the same attempts.
    """
    found = stage.found.get(partition)
    return 0 if found is None else found.number - (partition in stage.current)
