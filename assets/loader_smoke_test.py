"""The asset NAME/loader_smoke_test: reads the newest snapshots as training jobs do."""

from collections.abc import Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING

import dagster as dg

from headrace.assemble.centroids import with_centroids
from headrace.assemble.column_sets import rows_of_texts
from headrace.assemble.reconcile import are_current, latent_sources
from headrace.assemble.stages import StageKind, latents_by_part, stages_of
from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.encoders import Encoder
from headrace.errors import HeadraceError
from headrace.format.snapshots.snapshots import NumberedSnapshot, Snapshot, read_snapshot
from headrace.locate.outputs import AUDIO
from headrace.smoke.choice import Coverage
from headrace.smoke.verdicts import VERDICTS, WARNINGS
from headrace.stores.storage import Storage
from headrace_dagster.assets.events import INPUTS_TAG, readable_failures, short_digest
from headrace_dagster.assets.markdown import markdown_list
from headrace_dagster.assets.metadata import part_name, smoke_metadata
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.records import newest_snapshot
from headrace_dagster.resources.encoders import Encoders
from headrace_dagster.resources.storage import StorageResource

if TYPE_CHECKING:
    from headrace.smoke.run import SmokeResult

COVERAGE = "covered"
"""Name of the metadata entry with the shards that passed smoke tests have read."""


def smoke_inputs(config: DatasetConfig, snapshots: Mapping[str, NumberedSnapshot]) -> str:
    """Digest of what a smoke test depends on: the snapshots and the settings of the loader."""
    read = [f"{part} {numbered.snapshot.fingerprint}" for part, numbered in snapshots.items()]
    return short_digest(config.loader.model_dump_json(), *read)


def tested_snapshots(config: DatasetConfig, storage: StorageResource) -> dict[str, NumberedSnapshot]:
    """The newest snapshot of each part, without latents that are missing or not up to date: their own run failed.

    Raises:
        NotFoundError: there is no snapshot of the audio.
    """
    audio = read_snapshot(storage.audio(config))
    found = {AUDIO: audio}
    for part, latents in latents_by_part(config).items():
        newest = newest_snapshot(storage.latents(config, latents.name))
        if newest is not None and _are_current(config, storage, latents, newest.snapshot, audio.snapshot):
            found[part] = newest
    return found


def _are_current(
    config: DatasetConfig, storage: StorageResource, latents: LatentsConfig, found: Snapshot, audio: Snapshot
) -> bool:
    try:
        fitted = with_centroids(latents, storage.latents(config, latents.name))
        rows = rows_of_texts(storage.output(config), config, latents)
    except HeadraceError:  # no centroids, or no valid table of texts, yet
        return False
    return are_current(fitted, found, latent_sources(audio.partitions, rows))


def loader_smoke_test_asset(dataset: ProjectDataset) -> dg.AssetsDefinition:
    """The asset NAME/loader_smoke_test of a data set."""
    config, keys = dataset.config, dataset.keys
    indexes = map(keys.index, stages_of(config, StageKind.AUDIO, StageKind.LATENTS))

    @dg.asset(
        key=keys.loader_smoke_test,
        deps=list(indexes),
        group_name=config.name,
        owners=config.owners,
        kinds={"torch", "webdataset"},
        check_specs=[
            dg.AssetCheckSpec(name, asset=keys.loader_smoke_test, description=text) for name, text in VERDICTS.items()
        ],
        description="Reads the newest snapshots with worker processes, as training jobs do: with `StreamingDataset` on "
        "two ranks, saved and resumed within an epoch; with the plain webdataset pipeline; and audio with its latents. "
        "Compares the samples with sizes.json, indexes and JSON, and latents with the output of their encoder. Reads "
        "the shards that are new since the last passed test, and a rotating part of the others (loader.reread_every).",
    )
    def loader_smoke_test(
        context: dg.AssetExecutionContext,
        headrace_storage: StorageResource,
        headrace_encoders: dg.ResourceParam[Encoders],
    ) -> dg.MaterializeResult:  # type: ignore[type-arg]  # Dagster wants the class itself
        from headrace.smoke.run import SmokePart, smoke_test  # noqa: PLC0415 - polars: not in a code server

        coverage = _coverage(context.instance, keys.loader_smoke_test)
        with readable_failures():
            loads = {
                part: partial(_load, headrace_encoders, headrace_storage.latents(config, latents.name), latents)
                for part, latents in latents_by_part(config).items()
            }
            tested, folders = tested_snapshots(config, headrace_storage), headrace_storage.parts(config)
            texts = _texts(config, headrace_storage)
            parts = {name: SmokePart.newest(folders[name], texts.get(name)) for name in tested}
            loads = {name: load for name, load in loads.items() if name in tested}
            try:
                results = smoke_test(parts, config.loader, coverage, loads)
            finally:
                headrace_encoders.release()
        snapshots = {name: part.numbered for name, part in parts.items()}
        decisive = VERDICTS.keys() - WARNINGS
        is_good = not any(result.faults[name] for result in results.values() for name in decisive)
        covered = coverage.after(snapshots) if is_good else coverage
        return dg.MaterializeResult(
            data_version=dg.DataVersion(smoke_inputs(config, snapshots)),
            metadata={
                **smoke_metadata(results),
                **_left_out(folders.keys() - tested.keys()),
                COVERAGE: dg.MetadataValue.json(covered.to_json()),
            },
            tags={INPUTS_TAG: smoke_inputs(config, snapshots)},
            check_results=[_verdict(name, results) for name in VERDICTS],
        )

    return loader_smoke_test


def _left_out(parts: Collection[str]) -> dict[str, str]:
    """The entry about parts that were not tested."""
    return {"not_tested": f"{', '.join(sorted(parts))}: not up to date"} if parts else {}


def _coverage(instance: dg.DagsterInstance, key: dg.AssetKey) -> Coverage:
    """Coverage of earlier smoke tests, from the metadata of the last one."""
    event = instance.get_latest_materialization_event(key)
    materialization = event.asset_materialization if event else None
    said = materialization.metadata.get(COVERAGE) if materialization else None
    return Coverage.from_json(said.value if said is not None else None)


def _verdict(name: str, results: "Mapping[str, SmokeResult]") -> dg.AssetCheckResult:
    faults = [f"{part}: {fault}" for part, result in results.items() for fault in result.faults[name]]
    samples = {f"{part_name(part)}_samples": result.num_samples for part, result in results.items()}
    return dg.AssetCheckResult(
        check_name=name,
        passed=not faults,
        severity=dg.AssetCheckSeverity.WARN if name in WARNINGS else dg.AssetCheckSeverity.ERROR,
        metadata=samples,
        description=markdown_list(faults) or None,
    )


def _texts(config: DatasetConfig, storage: StorageResource) -> dict[str, Storage]:
    """Part → the folder of the set of columns whose texts its latents are made from."""
    sets = {part: config.text_column(latents)[0] for part, latents in latents_by_part(config).items()}
    return {part: storage.columns(config, columns) for part, columns in sets.items() if columns}


def _load(encoders: Encoders, storage: Storage, latents: LatentsConfig) -> list[Encoder]:
    return encoders.load(with_centroids(latents, storage).encoder)
