"""Writes a data set for `sensor_ticks`: a source of empty files, with catalog, manifests and events written directly.

Sensors read no audio, so the files are empty.
"""

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import polars as pl
import yaml

from headrace.audio import codec_version
from headrace.build.reconcile import wanted_partitions
from headrace.catalog.columns import RECORDING_SCHEMA, REJECTED_SCHEMA
from headrace.catalog.header import CatalogHeader
from headrace.catalog.scan import Catalog
from headrace.catalog.storing import store_catalog
from headrace.config.dataset import DatasetConfig, load_config
from headrace.format.manifests import Manifest, ShardEntry, commit_manifest
from headrace_dagster.assets.catalog import source_inputs
from headrace_dagster.assets.events import INPUTS_TAG
from headrace_dagster.assets.gates import SHARD_CHECKS
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.resources.storage import StorageResource

NAME = "bench"
_SECONDS = 5.0
_RATE_HZ = 44_100
_SAMPLES_PER_SHARD = 50
_CHANGED_NS = 10**18


@dataclass(frozen=True)
class Dataset:
    """What was written."""

    config: DatasetConfig
    catalog: Catalog
    header: CatalogHeader


def write_dataset(
    folder: Path, instance: dg.DagsterInstance, num_recordings: int, num_partitions: int, num_shards: int = 0
) -> Dataset:
    """Source, YAML, catalog and manifests of all partitions below `folder`, as if built and recorded.

    Args:
        folder: an empty folder.
        instance: takes the records.
        num_recordings: number of recordings in source and catalog.
        num_partitions: number of partitions.
        num_shards: number of shards in each manifest; 0 for as many as the recordings fill.
    """
    config = _config(folder, num_partitions)
    catalog = _source(folder, num_recordings)
    header = store_catalog(StorageResource().output(config), catalog, config)
    _partitions(config, header, instance, num_shards)
    return Dataset(config, catalog, header)


def change_everything(dataset: Dataset) -> None:
    """Store a catalog of the same recordings, all with another content."""
    recordings = dataset.catalog.recordings.with_columns(pl.col("recording_digest").str.reverse())
    other = Catalog(recordings, dataset.catalog.rejected, dataset.catalog.probe_version)
    store_catalog(StorageResource().output(dataset.config), other, dataset.config, dataset.header)


def _config(folder: Path, num_partitions: int) -> DatasetConfig:
    content = {
        "source": {"uri": str(folder / "recordings")},
        "splits": {"train": 1.0},
        "shards": {"partitions": {"train": num_partitions}, "samples_per_shard": _SAMPLES_PER_SHARD},
        "output": {"uri": str(folder / "output")},
    }
    (folder / "datasets").mkdir()
    (folder / f"datasets/{NAME}.yaml").write_text(yaml.safe_dump(content))
    return load_config(folder / f"datasets/{NAME}.yaml")


def _source(folder: Path, count: int) -> Catalog:
    """The files, and the catalog that a scan would have made of them."""
    paths = [f"{i // 1000:03d}/{i:06d}.wav" for i in range(count)]
    for path in paths:
        file = folder / "recordings" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, ns=(_CHANGED_NS, _CHANGED_NS))
    facts = {
        "key": [path[4:10] for path in paths],
        "path": paths,
        "sha256": [hashlib.sha256(path.encode()).hexdigest() for path in paths],
        "num_bytes": [0] * count,
        "mtime_ns": [_CHANGED_NS] * count,
        "container": ["wav"] * count,
        "subtype": ["PCM_16"] * count,
        "num_frames": [round(_SECONDS * _RATE_HZ)] * count,
        "sample_rate_hz": [_RATE_HZ] * count,
        "num_channels": [1] * count,
        "bits_per_sample": [16] * count,
        "start_frame": [0] * count,
        "stop_frame": [round(_SECONDS * _RATE_HZ)] * count,
        "duration_seconds": [_SECONDS] * count,
        "duplicate_of": [None] * count,
        "excluded_segments": [None] * count,
        "recording_digest": [hashlib.md5(path.encode()).hexdigest() for path in paths],
    }
    user = {f"title {i}": [f"a line of metadata {i} {path}" for path in paths] for i in range(3)}
    recordings = pl.DataFrame(facts, schema=RECORDING_SCHEMA).with_columns(pl.DataFrame(user))
    return Catalog(recordings, pl.DataFrame(schema=REJECTED_SCHEMA), codec_version())


def _partitions(config: DatasetConfig, catalog: CatalogHeader, instance: dg.DagsterInstance, num_shards: int) -> None:
    """Manifests of all partitions, as built from the catalog, and the events that Dagster has of them."""
    audio, keys = StorageResource().audio(config), DatasetKeys((config.name,))
    samples = num_shards * _SAMPLES_PER_SHARD or catalog.num_rows // len(catalog.partitions)
    scanned = {INPUTS_TAG: source_inputs(config, StorageResource())}
    instance.report_runless_asset_event(dg.AssetMaterialization(keys.catalog, tags=scanned))
    for number, (partition, wanted) in enumerate(wanted_partitions(catalog.fingerprints, config).items()):
        names = tuple(f"{number:04d}_{i:06d}_with_a_name" for i in range(samples))
        shards = tuple(_shard(number, i, names) for i in range(-(-samples // _SAMPLES_PER_SHARD)))
        manifest = Manifest(partition, wanted, "", {"samples_per_shard": _SAMPLES_PER_SHARD}, shards)
        commit_manifest(audio, manifest, None)
        tags = {"dagster/data_version": manifest.digest}
        instance.report_runless_asset_event(dg.AssetMaterialization(keys.audio_shards, partition=partition, tags=tags))
        for check in SHARD_CHECKS:
            passed = dg.AssetCheckEvaluation(keys.audio_shards, check, passed=True, partition=partition)
            instance.report_runless_asset_event(passed)


def _shard(bucket: int, sequence: int, names: tuple[str, ...]) -> ShardEntry:
    keys = names[sequence * _SAMPLES_PER_SHARD :][:_SAMPLES_PER_SHARD]
    name = f"train_{bucket:04d}_{sequence:06d}-{sequence:012x}.tar"
    seconds = _SECONDS * len(keys)
    return ShardEntry(name, 10**7, len(keys), round(seconds * _RATE_HZ), seconds, f"{sequence:064x}", len(keys))
