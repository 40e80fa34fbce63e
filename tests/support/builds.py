"""Builds audio shards from a folder of tiny recordings with the library's own steps, without Dagster."""

import wave
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from headrace.assemble.audio import build_partition
from headrace.assemble.commit import commit_partitions
from headrace.assemble.shard_settings import ShardSettings
from headrace.assemble.update import PartitionBuild
from headrace.audio import AudioFormat
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.format.manifests.planned_keys import read_planned_keys
from headrace.format.snapshots.snapshots import NumberedSnapshot, read_snapshot
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage, Storage
from headrace.verification.audit import conservation_faults, index_faults, snapshot_faults

PLAIN = AudioFormat(None, None, None)


@dataclass
class Project:
    """A dataset with its recordings in `folder`/source and its output in `output`.

    Its attributes may be changed between builds.
    """

    folder: Path
    output: Storage = None
    layout: Partitioning = field(default_factory=lambda: Partitioning({"train": 0.8, "test": 0.2}, {"train": 2}, 4))
    audio: AudioFormat = PLAIN
    num_threads: int = 2
    metadata: object = None
    reshuffle: int = 0
    exclude: tuple[str, ...] = ()
    size: ShardSize | None = None  # of a shard; None takes the layout's samples_per_shard
    asked: dict = field(default_factory=dict)  # further keys of the section `source`
    source_uri: str | None = None  # where the recordings are, if not in the folder

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
        """The config that a YAML file would give."""
        layout = self.layout
        return DatasetConfig(
            name="project",
            source={"uri": str(self.folder / "source"), "settle_seconds": 0, **self.asked},
            exclude=self.exclude,
            audio={"segment_seconds": self.audio.segment_seconds, "last_segment": self.audio.last_segment},
            splits=dict(layout.splits),
            shards={"partitions": dict(layout.partitions), "samples_per_shard": layout.samples_per_shard},
            output={"uri": self.output.uri},
        )

    def build(self, *, commit: bool = True) -> "Result":
        """Bring all partitions up to date and commit a snapshot; without `commit`, the snapshot is the newest one."""
        source = open_source(self.source_uri or self.folder / "source")
        _, catalog = update_catalog(self.config(), source, self.metadata, self.output)
        settings = ShardSettings(self.audio, self.size or ShardSize(self.layout.samples_per_shard), self.reshuffle)
        builds = {}
        for partition in self.layout.partition_keys():
            recordings = partition_recordings(self.output, self.config(), partition)
            builds[partition] = build_partition(
                partition, recordings, settings, source, self.shards, num_threads=self.num_threads
            )
        wanted = {name: settings.wanted(digest) for name, digest in catalog.fingerprints.items()}
        contents: dict[str, tuple[str, ...]] = {}
        for build in builds.values():
            names = [shard.name for shard in build.manifest.manifest.shards]
            keys = map(tuple, read_planned_keys(self.shards, build.manifest))
            contents |= zip(names, keys, strict=True)
        if not commit:
            return Result(builds, read_snapshot(self.shards), False, contents)
        snapshot, is_new, _ = commit_partitions(self.shards, wanted, catalog.digest)
        return Result(builds, snapshot, is_new, contents)

    def files(self) -> dict[str, bytes]:
        """All files in the shard folder."""
        return {entry.path: self.shards.read(entry.path) for entry in self.shards.list()}


@dataclass
class Result:
    """The result of one build; `contents` are the planned samples by shard."""

    partitions: dict[str, PartitionBuild]
    snapshot: NumberedSnapshot
    is_new: bool
    contents: dict[str, tuple[str, ...]]

    @property
    def written(self) -> list[str]:
        return [name for build in self.partitions.values() for name in build.written]

    def shard_of(self, stem: str) -> str:
        """The shard that contains the recording whose key starts with a prefix."""
        found = [name for name, keys in self.contents.items() if any(key.startswith(f"{stem}-") for key in keys)]
        assert len(found) == 1
        return found[0]


def write_wav(path: Path, seed: object, *, num_frames: int = 400, rate: int = 8000, channels: int = 1) -> None:
    """Write noise as a 16-bit WAV. Uses the standard library, so the bytes depend on no codec's version."""
    path.parent.mkdir(parents=True, exist_ok=True)
    digest = int.from_bytes(str(seed).encode(), "little") % (1 << 63)
    noise = np.random.default_rng(digest).integers(-9000, 9000, num_frames * channels, np.int16)
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes(noise.tobytes())


def twenty_clips(folder: Path) -> Project:
    """A project of twenty short recordings that has not been built."""
    made = Project(folder)
    for number in range(20):
        made.put(f"clip{number:02d}.wav", num_frames=300 + number)
    return made


def check(project: Project, result: Result) -> Result:
    """Check what must hold after every build."""
    faults = snapshot_faults(project.shards, result.snapshot.snapshot)
    for build in result.partitions.values():
        faults += conservation_faults(project.shards, build.manifest)
        for shard in build.manifest.manifest.shards:
            faults += index_faults(project.shards, shard)
    assert faults == []
    return result
