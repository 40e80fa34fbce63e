"""Exports the plain WebDataset that other tools expect: `train_000000.tar`, …, and `sizes.json`.

Whole shards are hard links on one local disk, copies otherwise; their content is not read. With a view, columns or
latents, new tars are written.
"""

import json
from collections import Counter

from headrace.exports.exporter import ExportFields, ExportSample, ExportShard, Takes, Written
from headrace.exports.folder import ExportFolder
from headrace.exports.tar_series import TarSeries, WrittenTar
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.indexing import index_tar
from headrace.format.snapshots.sizes_file import write_sizes


class WebDatasetExporter:
    """Tars of the samples' files. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._numbers: Counter[str] = Counter()
        self._num_linked = 0
        self.num_samples: dict[str, int] = {}
        """Samples of each tar, by its name."""
        self.splits: dict[str, list[str]] = {}
        """Names of the tars of each split."""

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        self._tars = TarSeries(self._folder, _name, fields.shard_bytes, self._index)
        self._latents = fields.latents
        return Takes.SHARDS if fields.are_shards_whole else Takes.SAMPLES

    def add_shard(self, shard: ExportShard) -> None:
        """See `Exporter.add_shard`."""
        self.place(shard)

    def place(self, shard: ExportShard) -> tuple[str, ShardIndex]:
        """Link or copy a shard, and write its index. Returns its name and its index."""
        name = shard.prefix + _name(shard.split, self._numbers[shard.split])
        self._numbers[shard.split] += 1
        self._num_linked += self._folder.link(name, shard.storage, shard.name)
        index = shard.index()
        self._folder.write_index(name, index)
        self._note(shard.split, name, shard.num_samples)
        return name, index

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        audio = {
            f"{sample.name}.{one.extension if name == 'audio' else f'{name}.{one.extension}'}": one.blob
            for name, one in sample.audio.items()
        }
        is_only = len(self._latents) == 1
        latents = {f"{sample.name}.{'' if is_only else name + '.'}pth": blob for name, blob in sample.latents.items()}
        text = json.dumps(sample.metadata, ensure_ascii=False).encode()
        self._tars.add(sample.split, {**audio, f"{sample.name}.json": text, **latents})

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        self._tars.close()
        write_sizes(self._folder, self.num_samples.items())
        return Written(len(self.num_samples), self._num_linked)

    def _index(self, tar: WrittenTar) -> None:
        with self._folder.open(tar.path) as file:
            self._folder.write_index(tar.path, index_tar(file, tar.path))
        self._note(tar.split, tar.path, tar.num_samples)

    def _note(self, split: str, name: str, num_samples: int) -> None:
        self.num_samples[name] = num_samples
        self.splits.setdefault(split, []).append(name)


def _name(split: str, number: int) -> str:
    return f"{split}_{number:06d}.tar"
