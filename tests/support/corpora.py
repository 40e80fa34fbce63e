"""Corpora of each kind of source, built from their YAML by the library's own steps, and read back as samples."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import soundfile

from headrace import StreamingDataset
from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.shard_settings import ShardSettings
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import parse_config
from headrace.config.partitioning import ShardSize
from headrace_dagster.resources.storage import StorageResource

RATE_HZ = 8000


def write_sound(path, seed, *, frames=400, channels=1, **form):
    """Write noise, which depends on the seed. Returns the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    noise = 0.2 * np.random.default_rng(seed).standard_normal((frames, channels))
    soundfile.write(path, noise, RATE_HZ, subtype="PCM_16", **form)
    return path


@dataclass
class Built:
    """The result of a build: key → sample; rejects; shards that were written."""

    samples: dict
    rejects: dict  # path, or key of a row → code
    reasons: list
    written: list
    scan: object

    def by_text(self, column="text"):
        """Text → the PCM of its samples, as lists."""
        return {sample["metadata"][column]: sample["audio"].tolist() for sample in self.samples.values()}


def build(folder: Path, source: dict, **sections) -> Built:
    """Build the data set whose YAML has this section `source` into `folder`/output, and read all of its samples."""
    content = {
        "source": {"settle_seconds": 0, **source},
        "splits": {"train": 1.0},
        "shards": {"samples_per_shard": 2, "partitions": {"train": 2}},
        "output": {"uri": str(folder / "output")},
        **sections,
    }
    config = parse_config(content, "mine", folder / "mine.yaml")
    storage = StorageResource(root=str(folder))
    output, corpus = storage.output(config), storage.source(config)
    scan, catalog = update_catalog(config, corpus, storage.metadata(config), output)
    settings = ShardSettings(config.audio.format(), ShardSize(2), 0)
    written = []
    for partition in config.partitioning().partition_keys():
        rows = partition_recordings(output, config, partition)
        made = build_partition(partition, rows, settings, corpus, storage.audio(config), num_threads=1)
        written += made.written
    wanted = {name: settings.wanted(digest) for name, digest in catalog.fingerprints.items()}
    commit_partitions(storage.audio(config), wanted, catalog.digest)
    dataset = StreamingDataset(remote=str(folder / "output"), batch_size=1)
    samples = {sample["__key__"]: sample for sample in dataset}
    rejected = scan.rejected
    return Built(
        samples,
        dict(zip(rejected["path"], rejected["code"], strict=True)),
        rejected["reason"].to_list(),
        written,
        scan,
    )
