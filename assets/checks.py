"""Asset checks of the catalog, shards and snapshots: they compare the files of the output with each other.

Each check can run alone and at any time, because it reads nothing but the output. The checks of shards read nothing if
the same run has built the partition: the build made the comparisons on what it wrote, before it stored it, and a shard
that it used again was compared when it was written (docs/design/0050). The check that needs the scan itself (every file
found is counted) is part of the asset `catalog`. Checks whose failure must keep data from readers are blocking.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import dagster as dg

from headrace.config.content import LatentsConfig
from headrace.config.dataset import DatasetConfig
from headrace.errors import CatalogError, ConfigError
from headrace.format.manifests.manifests import Manifest, NumberedManifest, newest_manifest
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.stores.storage import Storage
from headrace.verification.audit import conservation_faults, index_faults, pairing_faults, snapshot_faults
from headrace_dagster.assets.build_comparison import BuildComparison, verdict
from headrace_dagster.assets.events import readable_failures
from headrace_dagster.assets.gates import alignment_check
from headrace_dagster.assets.metadata import table
from headrace_dagster.assets.partition_runs import PartitionCheckEvent, PartitionChecks, check_partitions
from headrace_dagster.assets.partitions import partitions_of
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.resources.storage import StorageResource

if TYPE_CHECKING:
    from headrace.catalog.stored.parts import StoredCatalog
    from headrace.verification.frame_alignment import AlignmentFault

_INDEX_MATCHES = "every .idx lists exactly the members of its tar, at the right byte ranges"
_AUDIO_CHECKS = {"conservation": "planned samples = written + rejected", "index_matches_tar": _INDEX_MATCHES}
_LATENTS_CHECKS = {"conservation": "one latent sample for every audio sample", "index_matches_tar": _INDEX_MATCHES}


def dataset_checks(dataset: ProjectDataset) -> list[dg.AssetChecksDefinition]:
    """The checks of a data set's catalog, shards and snapshots."""
    config, keys = dataset.config, dataset.keys
    return [
        _catalog_schema(dataset),
        ShardChecks(config, keys.audio_shards, None).definition(),
        _index_check(config, keys.sizes_index, None),
        *(ShardChecks(config, keys.latent_shards(latents.name), latents).definition() for latents in config.latents),
        *(_index_check(config, keys.latents_index(latents.name), latents) for latents in config.latents),
    ]


def _catalog_schema(dataset: ProjectDataset) -> dg.AssetChecksDefinition:
    config = dataset.config

    @dg.asset_check(
        asset=dataset.keys.catalog,
        name="schema",
        blocking=True,
        description="The stored catalog has the columns, types and unique keys that later steps rely on (pandera).",
    )
    @readable_failures()
    def schema(headrace_storage: StorageResource) -> dg.AssetCheckResult:
        from headrace.catalog.compared.findings import findings_of  # noqa: PLC0415 - polars: not in a code server
        from headrace.verification.frame_alignment import column_faults  # noqa: PLC0415 - likewise

        catalog = headrace_storage.catalog(config)
        numbers = {"recordings": catalog.header.num_rows}
        faults = findings_of(catalog, config, "schema", lambda: _schema_faults(catalog))
        if faults:
            return verdict(faults, numbers)
        try:
            if config.source.validation is not None:
                from headrace.catalog.judging.validation import check_metadata_in_parts  # noqa: PLC0415 - pandera brings pandas

                tables = (rows for _, rows in catalog.partitions())
                check_metadata_in_parts(tables, catalog.recordings, config.source.validation)
        except (CatalogError, ConfigError) as error:
            return verdict([str(error)], numbers)
        aligned = sorted({column for latents in config.latents for column in latents.frame_aligned})
        first = next((rows for _, rows in catalog.partitions()), None)  # all have the same columns
        return verdict(column_faults(catalog.recordings() if first is None else first, aligned), numbers)

    return schema


def _schema_faults(catalog: "StoredCatalog") -> list[str]:
    """Lines that say what is wrong with the tables of a catalog."""
    from headrace.catalog.judging.validation import check_partitions  # noqa: PLC0415 - pandera brings pandas

    try:
        check_partitions(lambda: (rows for _, rows in catalog.partitions()), catalog.rejected())
    except CatalogError as error:
        return [str(error)]
    return []


@dataclass(frozen=True, slots=True)
class ShardChecks:
    """The checks of each partition of audio shards, or of a set of latents.

    Attributes:
        config: the data set.
        key: the partitioned asset.
        latents: the set of latents; None for audio shards.
    """

    config: DatasetConfig
    key: dg.AssetKey
    latents: LatentsConfig | None

    def definition(self) -> dg.AssetChecksDefinition:
        """The checks as a step of a run."""

        @dg.multi_asset_check(name="__".join([*self.key.path, "checks"]), specs=self._specs())
        def checks(
            context: dg.AssetCheckExecutionContext, headrace_storage: StorageResource
        ) -> Iterator[PartitionCheckEvent]:
            def of_partition(partition: str) -> Iterator[dg.AssetCheckResult]:
                built = BuildComparison.by_the_build(context.instance, context.run.run_id, self.key, partition)
                return self._results(headrace_storage, partition, built)

            yield from check_partitions(context, self.key, of_partition)

        return checks

    def of_build(self, context: dg.AssetExecutionContext, storage: StorageResource) -> PartitionChecks:
        """The checks of a partition that the step of the asset has just built."""

        def results(partition: str, made: dg.MaterializeResult[None]) -> Iterator[dg.AssetCheckResult]:
            written = int(str((made.metadata or {})["shards_written"]))
            built = BuildComparison(context.instance, context.run.run_id, self.key, partition, written)
            return self._results(storage, partition, built)

        return results

    def _specs(self) -> list[dg.AssetCheckSpec]:
        texts = _AUDIO_CHECKS if self.latents is None else _LATENTS_CHECKS
        texts = texts | {
            alignment_check(column): f"{column!r} has one entry per latent frame" for column in self._aligned
        }
        with warnings.catch_warnings():
            # Dagster marks partitioned checks as preview. An unpartitioned one has one result for all partitions.
            warnings.simplefilter("ignore", dg.PreviewWarning)
            return [
                dg.AssetCheckSpec(
                    name, asset=self.key, blocking=True, partitions_def=partitions_of(self.config), description=text
                )
                for name, text in texts.items()
            ]

    @property
    def _aligned(self) -> tuple[str, ...]:
        return tuple(self.latents.frame_aligned) if self.latents else ()

    def _results(
        self, storage: StorageResource, partition: str, compared: BuildComparison
    ) -> Iterator[dg.AssetCheckResult]:
        """The result of each check of a partition."""
        from headrace.verification.frame_alignment import alignment_faults  # noqa: PLC0415 - polars: not in a code server

        with readable_failures():
            shards, audio = _shards(storage, self.config, self.latents), storage.audio(self.config)
            numbered = _manifest(shards, partition)
            manifest = numbered.manifest
            numbers = {
                "shards": len(manifest.shards),
                "samples": manifest.num_samples,
                "rejected": len(manifest.refused),
            }
            yield compared.verdict(
                "conservation", lambda: _conservation(audio, shards, numbered, self.latents), numbers
            )
            yield compared.verdict("index_matches_tar", lambda: shard_faults(shards, manifest), numbers)
            misaligned = list(alignment_faults(shards, manifest, self._aligned))
            for column in self._aligned:
                yield _alignment([fault for fault in misaligned if fault.column == column], numbers, column, self.key)


def _alignment(
    faults: "Sequence[AlignmentFault]", numbers: Mapping[str, int], column: str, key: dg.AssetKey
) -> dg.AssetCheckResult:
    """The result of the check of one frame-aligned column, with a table row for each fault."""
    rows = [
        {
            "shard": fault.shard,
            "key": fault.key,
            "column": fault.column,
            "found": "not a list" if fault.found is None else str(fault.found),
            "expected": fault.num_latent_frames,
        }
        for fault in faults
    ]
    types = {**dict.fromkeys(("shard", "key", "column", "found"), "string"), "expected": "int"}
    listed = {"misaligned": len(faults), **({"faults_table": table(rows, types)} if rows else {})}
    return verdict([str(fault) for fault in faults], {**numbers, **listed}, alignment_check(column), key)


def shard_faults(storage: Storage, manifest: Manifest) -> list[str]:
    """Differences between the indexes of a partition and the headers of its tars, all of which are opened."""
    return [fault for shard in manifest.shards for fault in index_faults(storage, shard)]


def _conservation(
    audio: Storage, shards: Storage, numbered: NumberedManifest, latents: LatentsConfig | None
) -> list[str]:
    if latents is None:
        return conservation_faults(shards, numbered)
    return pairing_faults(audio, shards, numbered.manifest)


def _index_check(config: DatasetConfig, key: dg.AssetKey, latents: LatentsConfig | None) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=key,
        name="sizes_match_snapshot",
        blocking=True,
        description="sizes.json has the numbers of the newest snapshot, and every shard of the snapshot exists.",
    )
    @readable_failures()
    def sizes_match_snapshot(headrace_storage: StorageResource) -> dg.AssetCheckResult:
        shards = _shards(headrace_storage, config, latents)
        snapshot = read_snapshot(shards).snapshot
        numbers = {"shards": snapshot.num_shards, "samples": snapshot.num_samples}
        return verdict(snapshot_faults(shards, snapshot), numbers)

    return sizes_match_snapshot


def _shards(storage: StorageResource, config: DatasetConfig, latents: LatentsConfig | None) -> Storage:
    return storage.audio(config) if latents is None else storage.latents(config, latents.name)


def _manifest(storage: Storage, partition: str) -> NumberedManifest:
    found = newest_manifest(storage, partition)
    if found is None:
        raise dg.Failure(
            f"{partition}: this partition is not built yet; materialize it before its checks", allow_retries=False
        )
    return found
