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
from _growth_manifests import speech_lengths

from headrace.assemble.reconcile import wanted_partitions
from headrace.audio import codec_version
from headrace.catalog.rows.schemas import RECORDING_SCHEMA, REJECTED_SCHEMA
from headrace.catalog.scanning.scan import Catalog
from headrace.catalog.stored.header import CatalogHeader
from headrace.catalog.stored.storing import store_catalog
from headrace.config.dataset import DatasetConfig, load_config
from headrace.format.manifests.manifests import Manifest, ShardEntry, commit_manifest
from headrace_dagster.assets.catalog import source_inputs
from headrace_dagster.assets.events import INPUTS_TAG
from headrace_dagster.assets.gates import SHARD_CHECKS
from headrace_dagster.assets.keys import DatasetKeys
from headrace_dagster.resources.storage import StorageResource

NAME = "bench"
_SECONDS = 5.0
_RATE_HZ = 44_100
_CHANGED_NS = 10**18


@dataclass(frozen=True)
class Size:
    """Size of the data that is written.

    Attributes:
        recordings: recordings in source and catalog.
        partitions: partitions.
        shards: shards in each manifest; 0 for as many as the recordings fill.
        samples_per_shard: samples in each full shard.
    """

    recordings: int
    partitions: int
    shards: int
    samples_per_shard: int


@dataclass(frozen=True)
class Dataset:
    """Data that was written."""

    config: DatasetConfig
    catalog: Catalog
    header: CatalogHeader
    size: Size


def write_dataset(folder: Path, instance: dg.DagsterInstance, size: Size) -> Dataset:
    """Source, YAML and catalog below `folder`, an empty folder, as if `instance` had run a scan."""
    config = _config(folder, size)
    catalog = _source(folder, size.recordings)
    header = store_catalog(StorageResource().output(config), catalog, config)
    scanned = {INPUTS_TAG: source_inputs(config, StorageResource())}
    instance.report_runless_asset_event(dg.AssetMaterialization(DatasetKeys((config.name,)).catalog, tags=scanned))
    return Dataset(config, catalog, header, size)


def build_partitions(dataset: Dataset, instance: dg.DagsterInstance, first: int, stop: int) -> None:
    """Manifests of the partitions `first` to `stop`, as built from the catalog, and the events that Dagster has."""
    config, size = dataset.config, dataset.size
    audio, keys = StorageResource().audio(config), DatasetKeys((config.name,))
    samples = size.shards * size.samples_per_shard or size.recordings // size.partitions
    counts = [min(size.samples_per_shard, samples - start) for start in range(0, samples, size.samples_per_shard)]
    wanted = list(wanted_partitions(dataset.header.fingerprints, config).items())
    for number, (partition, digest) in list(enumerate(wanted))[first:stop]:
        shards = tuple(_shard(number, sequence, count) for sequence, count in enumerate(counts))
        lengths = speech_lengths(len(shards), size.samples_per_shard)
        layout = {"samples_per_shard": size.samples_per_shard}
        manifest = Manifest(partition, digest, "", layout, shards, lengths=lengths)
        commit_manifest(audio, manifest, None)
        tags = {"dagster/data_version": manifest.digest}
        instance.report_runless_asset_event(dg.AssetMaterialization(keys.audio_shards, partition=partition, tags=tags))
        for check in SHARD_CHECKS:
            passed = dg.AssetCheckEvaluation(keys.audio_shards, check, passed=True, partition=partition)
            instance.report_runless_asset_event(passed)


def change_everything(dataset: Dataset) -> None:
    """Store a catalog of the same recordings, all with another content."""
    recordings = dataset.catalog.recordings.with_columns(pl.col("recording_digest").str.reverse())
    other = Catalog(recordings, dataset.catalog.rejected, dataset.catalog.probe_version)
    store_catalog(StorageResource().output(dataset.config), other, dataset.config, dataset.header)


def _config(folder: Path, size: Size) -> DatasetConfig:
    content = {
        "source": {"uri": str(folder / "recordings")},
        "splits": {"train": 1.0},
        "shards": {"partitions": {"train": size.partitions}, "samples_per_shard": size.samples_per_shard},
        "output": {"uri": str(folder / "output")},
    }
    (folder / "datasets").mkdir()
    (folder / f"datasets/{NAME}.yaml").write_text(yaml.safe_dump(content))
    return load_config(folder / f"datasets/{NAME}.yaml")


def _source(folder: Path, count: int) -> Catalog:
    """The files, and the catalog that a scan would have made of them."""
    paths = [f"{i // 1000:03d}/{i:06d}.wav" for i in range(count)]
    change_times = []
    for path in paths:
        file = folder / "recordings" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.touch()
        os.utime(file, ns=(_CHANGED_NS, _CHANGED_NS))
        change_times.append(file.stat().st_ctime_ns)
    facts = {
        "key": [path[4:10] for path in paths],
        "path": paths,
        "sha256": [hashlib.sha256(path.encode()).hexdigest() for path in paths],
        "num_bytes": [0] * count,
        "mtime_ns": [_CHANGED_NS] * count,
        "ctime_ns": change_times,
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
    facts |= {name: [None] * count for name in RECORDING_SCHEMA if name not in facts}
    user = {f"title {i}": [f"a line of metadata {i} {path}" for path in paths] for i in range(3)}
    recordings = pl.DataFrame(facts, schema=RECORDING_SCHEMA).with_columns(pl.DataFrame(user))
    return Catalog(recordings, pl.DataFrame(schema=REJECTED_SCHEMA), codec_version())


def _shard(bucket: int, sequence: int, num_samples: int) -> ShardEntry:
    name = f"train_{bucket:04d}_{sequence:06d}-{sequence:012x}.tar"
    seconds = _SECONDS * num_samples
    return ShardEntry(name, 10**7, num_samples, round(seconds * _RATE_HZ), seconds, f"{sequence:064x}", num_samples)
