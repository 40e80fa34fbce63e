"""Plans the audio of a build without building: which partitions are stale, with their samples, hours and bytes.

Nothing is written to the output. The source is scanned into a scratch folder, with what the stored catalog knows.
"""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace.assemble.reconcile import shard_settings, wanted_partitions
from headrace.assemble.samples import ordered_samples, planned_samples
from headrace.assemble.staleness import BuildNeed, plan_build
from headrace.catalog.stored.header import HEADER_PATH, CatalogHeader
from headrace.catalog.stored.parts import partition_recordings
from headrace.config.dataset import DatasetConfig
from headrace.format.manifests.manifests import newest_manifests
from headrace.format.shards.condemned import lasting_sizes
from headrace.stores.storage import LocalStorage, Storage
from headrace.stores.temporary_room import temporary_room


@dataclass(frozen=True, slots=True)
class PlannedPartition:
    """A partition to build.

    Attributes:
        need: why.
        num_samples: its samples, before any is rejected when it is decoded.
        seconds: length of their audio.
        num_bytes: planned size of their audio, which FLAC compresses further.
    """

    need: BuildNeed
    num_samples: int
    seconds: float
    num_bytes: int


@dataclass(frozen=True, slots=True)
class PlannedBuild:
    """The audio that a build would make.

    Attributes:
        partitions: the partitions to build by name, in the layout's order.
        num_current: number of partitions that are up to date.
        num_recordings: number of recordings, or rows, that the scan accepts.
        reasons: code → number of rejected files and rows.
    """

    partitions: dict[str, PlannedPartition]
    num_current: int
    num_recordings: int
    reasons: dict[str, int]

    @property
    def total(self) -> tuple[int, float, int]:
        """Samples, seconds and bytes of all partitions to build."""
        found = self.partitions.values()
        return sum(p.num_samples for p in found), sum(p.seconds for p in found), sum(p.num_bytes for p in found)


@contextmanager
def scratch_output(output: Storage) -> Iterator[Storage]:
    """A temporary folder with the catalog of an output, for a scan whose result is not kept."""
    with temporary_room("a plan"), tempfile.TemporaryDirectory(prefix="headrace-plan-") as folder:
        scratch = LocalStorage(Path(folder))
        for entry in output.list(HEADER_PATH.partition("/")[0] + "/"):
            scratch.write(entry.path, output.read(entry.path))
        yield scratch


def planned_build(
    scanned: Storage,
    header: CatalogHeader,
    config: DatasetConfig,
    audio: Storage,
    progress: Callable[[], None] = lambda: None,
) -> PlannedBuild:
    """The audio that a build would make of a scanned source.

    Args:
        scanned: has the catalog of the scan.
        header: its header.
        config: the settings of the data set.
        audio: the folder of audio shards; it is only read.
        progress: called after each partition to build.
    """
    manifests, sizes = newest_manifests(audio), lasting_sizes(audio)
    damaged = {name for name, found in manifests.items() if not found.manifest.is_whole(sizes)}
    plan = plan_build(wanted_partitions(header.fingerprints, config), manifests, damaged)
    partitions = {}
    for name, need in plan.stale.items():
        partitions[name] = _planned(scanned, config, name, need)
        progress()
    return PlannedBuild(partitions, len(plan.current), header.num_rows, dict(header.reasons))


def _planned(scanned: Storage, config: DatasetConfig, name: str, need: BuildNeed) -> PlannedPartition:
    audio = shard_settings(config).audio
    planned, _ = planned_samples(partition_recordings(scanned, config, name), audio)
    seconds = (
        segment.num_frames / audio.output_rate_hz(recording.info.sample_rate_hz)
        for recording, segment in planned.values()
    )
    num_bytes = sum(sample.num_bytes for sample in ordered_samples(planned, audio))
    return PlannedPartition(need, len(planned), sum(seconds), num_bytes)
