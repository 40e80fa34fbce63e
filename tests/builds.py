"""A folder of tiny recordings and its audio shards, built by the library's own steps without Dagster."""

import wave
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headrace.audio import AudioFormat
from headrace.audit import conservation_faults, index_faults, snapshot_faults
from headrace.bucket_source import open_source
from headrace.catalog_partitions import PARTITION, fingerprints, recordings_of, with_partitions
from headrace.catalog_update import update_catalog
from headrace.commit import commit_partitions
from headrace.config import DatasetConfig
from headrace.plan import Layout
from headrace.shards import PartitionBuild, ShardSettings, build_partition
from headrace.snapshots import NumberedSnapshot
from headrace.storage import LocalStorage, Storage

PLAIN = AudioFormat(None, None, None)


@dataclass
class Project:
    """Sources in `folder`/source, output in `output`; the attributes may be changed between builds."""

    folder: Path
    output: Storage = None
    layout: Layout = field(default_factory=lambda: Layout({"train": 0.8, "test": 0.2}, {"train": 2}, 4))
    audio: AudioFormat = PLAIN
    num_threads: int = 2
    metadata: object = None
    reshuffle: int = 0

    def __post_init__(self):
        self.output = self.output or LocalStorage(self.folder / "output")
        (self.folder / "source").mkdir(parents=True, exist_ok=True)

    @property
    def shards(self):
        return self.output.at("audio")

    def put(self, name, seed=None, **form):
        """Write a recording; its content is a function of the seed (by default of the name)."""
        write_wav(self.folder / "source" / name, name if seed is None else seed, **form)

    def remove(self, name):
        (self.folder / "source" / name).unlink()

    def config(self) -> DatasetConfig:
        """What a YAML file would say of it."""
        layout = self.layout
        return DatasetConfig(
            name="project",
            source={"uri": str(self.folder / "source"), "settle_seconds": 0},
            splits=dict(layout.splits),
            shards={"partitions": dict(layout.partitions), "samples_per_shard": layout.samples_per_shard},
            output={"uri": self.output.uri},
        )

    def build(self) -> "Result":
        source = open_source(self.folder / "source")
        scan, _ = update_catalog(self.config(), source, self.metadata, self.output)
        rows = with_partitions(scan.recordings, self.layout, None)
        settings = ShardSettings(self.audio, self.layout.samples_per_shard, self.reshuffle)
        builds = {}
        for partition in self.layout.partition_keys():
            recordings = recordings_of(rows.filter(rows[PARTITION] == partition))
            builds[partition] = build_partition(
                partition, recordings, settings, source, self.shards, num_threads=self.num_threads
            )
        wanted = {name: settings.wanted(digest) for name, digest in fingerprints(rows, self.layout).items()}
        snapshot, is_new, _ = commit_partitions(self.shards, wanted, scan.catalog.digest)
        return Result(builds, snapshot, is_new)

    def files(self) -> dict[str, bytes]:
        """Everything in the shard folder."""
        return {entry.path: self.shards.read(entry.path) for entry in self.shards.list()}


@dataclass
class Result:
    """What one build did."""

    partitions: dict[str, PartitionBuild]
    snapshot: NumberedSnapshot
    is_new: bool

    @property
    def written(self) -> list[str]:
        return [name for build in self.partitions.values() for name in build.written]

    @property
    def contents(self) -> dict[str, tuple[str, ...]]:
        """Shard → its samples."""
        shards = [shard for build in self.partitions.values() for shard in build.manifest.manifest.shards]
        return {shard.name: shard.samples for shard in shards}

    def shard_of(self, stem: str) -> str:
        """The shard that holds the recording whose key begins so."""
        found = [name for name, keys in self.contents.items() if any(key.startswith(f"{stem}-") for key in keys)]
        assert len(found) == 1
        return found[0]


def write_wav(path: Path, seed: object, *, num_frames: int = 400, rate: int = 8000, channels: int = 1) -> None:
    """A 16-bit WAV of noise; by the standard library, so that no codec's version is in it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = int.from_bytes(str(seed).encode(), "little") % (1 << 63)
    noise = np.random.default_rng(digest).integers(-9000, 9000, num_frames * channels, np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(noise.tobytes())


def twenty_clips(folder: Path) -> Project:
    """A project of twenty short recordings, never built."""
    made = Project(folder)
    for number in range(20):
        made.put(f"clip{number:02d}.wav", num_frames=300 + number)
    return made


def check(project: Project, result: Result) -> Result:
    """What must hold after every build."""
    faults = snapshot_faults(project.shards, result.snapshot.snapshot)
    for build in result.partitions.values():
        faults += conservation_faults(project.shards, build.manifest.manifest)
        for shard in build.manifest.manifest.shards:
            faults += index_faults(project.shards, shard)
    assert faults == []
    return result
