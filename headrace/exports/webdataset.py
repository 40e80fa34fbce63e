"""Exports the plain WebDataset that other tools expect: `train_000000.tar`, …, and `sizes.json`.

Whole shards are hard links on one local disk, copies otherwise; their content is not read. With a view, columns or
latents, new tars are written. Other exporters use this one and add files about the tars.
"""

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace

from headrace.exports.exporter import ExportFields, ExportSample, ExportShard, Takes, Written
from headrace.exports.folder import ExportFolder
from headrace.exports.tar_series import TarSeries, WrittenTar
from headrace.format.indexes.index import ShardIndex, index_name
from headrace.format.indexes.indexing import index_tar
from headrace.format.snapshots.sizes_file import write_sizes
from headrace.format.tars.tar import sha256_of


class WebDatasetExporter:
    """Tars of the samples' files. See `exporter.Exporter`."""

    def __init__(
        self,
        folder: ExportFolder,
        placed: Callable[[str, ShardIndex], None] = lambda split, index: None,  # noqa: ARG005
        index_path: Callable[[str], str] = index_name,
    ) -> None:
        """Write nothing yet.

        Args:
            folder: gets the files.
            placed: called with the split and the index of each tar, whose `shard` is the tar's name.
            index_path: path of the index of a tar.
        """
        self._folder, self._placed, self._index_path = folder, placed, index_path
        self._numbers: Counter[str] = Counter()
        self._num_samples: dict[str, int] = {}
        self._num_linked = 0

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        self._tars = TarSeries(self._folder, _name, fields.shard_bytes, self._indexed)
        self._latents = fields.latents
        return Takes.SHARDS if fields.are_shards_whole else Takes.SAMPLES

    def add_shard(self, shard: ExportShard) -> None:
        """See `Exporter.add_shard`."""
        name = shard.prefix + _name(shard.split, self._numbers[shard.split])
        self._numbers[shard.split] += 1
        self._num_linked += self._folder.link(name, shard.storage, shard.name)
        self._place(shard.split, replace(shard.index(), shard=name), shard.num_samples)

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        audio = {
            f"{'' if name == 'audio' else f'{name}.'}{one.extension}": one.blob for name, one in sample.audio.items()
        }
        latents = {"pth" if len(self._latents) == 1 else f"{name}.pth": blob for name, blob in sample.latents.items()}
        files = {**audio, "json": json.dumps(sample.metadata, ensure_ascii=False).encode(), **latents}
        self._tars.add(sample.split, {f"{sample.name}.{field}": blob for field, blob in files.items()})

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        self._tars.close()
        write_sizes(self._folder, self._num_samples.items())
        return Written(len(self._num_samples), self._num_linked)

    def _indexed(self, tar: WrittenTar) -> None:
        with self._folder.open(tar.path) as file:
            sha256 = sha256_of(file)
            index = index_tar(file, tar.path, sha256=sha256)
        self._place(tar.split, index, tar.num_samples)

    def _place(self, split: str, index: ShardIndex, num_samples: int) -> None:
        self._folder.write(self._index_path(index.shard), index.to_bytes())
        self._num_samples[index.shard] = num_samples
        self._placed(split, index)


def _name(split: str, number: int) -> str:
    return f"{split}_{number:06d}.tar"
