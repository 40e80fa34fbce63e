"""NAME/loader_smoke_test: the proof that a training loader can read it all."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

import dagster as dg

from assets.events import INPUTS_TAG, OWNER, readable_failures, short_digest
from assets.keys import DatasetKeys
from assets.metadata import smoke_metadata
from headrace.config import DatasetConfig
from headrace.smoke_verdicts import VERDICTS
from headrace.snapshots import NumberedSnapshot, read_snapshot, read_table
from resources.storage import StorageResource

if TYPE_CHECKING:
    from headrace.smoke import SmokeResult


def smoke_inputs(config: DatasetConfig, snapshots: Mapping[str, NumberedSnapshot]) -> str:
    """Digest of what a smoke test is made from: what it reads and how."""
    read = [f"{part} {numbered.snapshot.fingerprint}" for part, numbered in snapshots.items()]
    return short_digest(config.loader.model_dump_json(), *read)


def loader_smoke_test_asset(config: DatasetConfig) -> dg.AssetsDefinition:
    """The asset."""
    keys = DatasetKeys(config.name)
    indexes = [keys.sizes_index, *(keys.latents_index(latents.name) for latents in config.latents)]

    @dg.asset(
        key=keys.loader_smoke_test,
        deps=indexes,
        group_name=config.name,
        owners=[OWNER],
        kinds={"torch", "webdataset"},
        check_specs=[
            dg.AssetCheckSpec(name, asset=keys.loader_smoke_test, description=text) for name, text in VERDICTS.items()
        ],
        description="Reads the newest snapshots with worker processes as training jobs would: with `StreamingDataset` "
        "as two ranks, saved and resumed in mid-epoch, and with the plain webdataset pipeline. Compares what arrives "
        "with indexes and JSON; of a large data set it reads shards drawn anew for every snapshot.",
    )
    def loader_smoke_test(storage: StorageResource) -> dg.MaterializeResult:
        from headrace.smoke import smoke_test  # noqa: PLC0415 - polars: not in a code server

        parts = storage.parts(config)
        with readable_failures():
            snapshots = {part: read_snapshot(shards) for part, shards in parts.items()}
            results = {
                part: smoke_test(
                    shards, read_table(shards, snapshots[part].snapshot), config.loader, snapshots[part].number
                )
                for part, shards in parts.items()
            }
        return dg.MaterializeResult(
            data_version=dg.DataVersion(smoke_inputs(config, snapshots)),
            metadata=smoke_metadata(results),
            tags={INPUTS_TAG: smoke_inputs(config, snapshots)},
            check_results=[_verdict(name, results) for name in VERDICTS],
        )

    return loader_smoke_test


def _verdict(name: str, results: "Mapping[str, SmokeResult]") -> dg.AssetCheckResult:
    faults = [f"{part}: {fault}" for part, result in results.items() for fault in result.faults[name]]
    samples = {part: result.num_samples for part, result in results.items()}
    return dg.AssetCheckResult(
        check_name=name, passed=not faults, metadata=samples, description="\n".join(faults) or None
    )
