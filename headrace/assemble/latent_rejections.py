"""Collects the rejected samples of a set of latents from the manifests of its partitions."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from headrace.format.manifests.manifests import Manifest, ManifestRejection, newest_manifest, read_manifest
from headrace.stores.storage import Storage


@dataclass(frozen=True, slots=True)
class LatentRejections:
    """The samples without latents in some manifests.

    Attributes:
        refused: one entry per sample without latents, by partition, in the order of the samples.
        num_samples: number of samples in these manifests, including those without latents.
    """

    refused: tuple[ManifestRejection, ...]
    num_samples: int

    @property
    def share(self) -> float:
        """Share of samples without latents in all samples, 0 to 1."""
        return len(self.refused) / self.num_samples if self.num_samples else 0.0


def newest_rejections(storage: Storage, partitions: Iterable[str]) -> LatentRejections:
    """Rejections in the newest manifests of these partitions. A partition that was never built has none."""
    found = (newest_manifest(storage, partition) for partition in partitions)
    return _gathered(numbered.manifest for numbered in found if numbered is not None)


def snapshot_rejections(storage: Storage, manifests: Mapping[str, int]) -> LatentRejections:
    """Rejections in the manifests of a snapshot of latents (`Snapshot.manifests`).

    Raises:
        NotFoundError: a manifest does not exist any more.
    """
    return _gathered(read_manifest(storage, partition, number).manifest for partition, number in manifests.items())


def _gathered(manifests: Iterable[Manifest]) -> LatentRejections:
    refused: list[ManifestRejection] = []
    num_samples = 0
    for manifest in manifests:  # one at a time: their lists of samples may be long
        refused += manifest.refused
        num_samples += manifest.num_samples
    return LatentRejections(tuple(refused), num_samples)
