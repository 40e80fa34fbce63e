"""Exports tars as a prepared data set of Megatron-Energon: `.nv-meta/` and `X.tar.idx` beside each `X.tar`.

`X.tar.idx` has the first byte of each sample and the end of the last one, as unsigned 64-bit numbers. A view is a
filter index: the numbers of the samples that it takes, counted over all shards.
"""

import json

import numpy as np
import yaml

from headrace.errors import ConfigError
from headrace.exports.exporter import ExportFields, ExportSample, ExportShard, Takes, Written
from headrace.exports.folder import ExportFolder
from headrace.exports.webdataset import WebDatasetExporter
from headrace.format.indexes.index import ABSENT, ShardIndex

_META = ".nv-meta"
_VERSION = "7.4.0"
_BLOCK_BYTES = 512


class EnergonExporter:
    """Tars with the files that `energon prepare` would write. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._tars = WebDatasetExporter(folder, self._index)
        self._splits: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._kept: list[np.ndarray[tuple[int], np.dtype[np.uint64]]] = []

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        self._view = None if fields.sets or fields.latents else fields.view
        takes = self._tars.begin(fields)
        return Takes.SAMPLES if fields.sets or fields.latents else Takes.SHARDS if fields.view else takes

    def add_shard(self, shard: ExportShard) -> None:
        """See `Exporter.add_shard`."""
        if shard.rows is not None:
            if (np.diff(shard.rows) == 0).any():
                raise ConfigError(
                    f"--view {self._view}: it repeats samples, which a filter of Energon cannot: export with --to "
                    "webdataset --view, which writes each repetition, and run energon prepare on that"
                )
            self._kept.append(shard.rows.astype(np.uint64) + np.uint64(sum(self._counts.values())))
        self._tars.add_shard(shard)

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        self._tars.add(sample)

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        written = self._tars.finish()
        if self._view is not None:
            self._write_filter(self._view)
        self._folder.write(f"{_META}/dataset.yaml", b"__module__: megatron.energon\n__class__: CrudeWebdataset\n")
        self._folder.write(f"{_META}/split.yaml", yaml.safe_dump({"split_parts": self._splits, "exclude": []}).encode())
        self._write_json(".info.json", {"energon_version": _VERSION, "shard_counts": self._counts})
        return written

    def _index(self, split: str, index: ShardIndex) -> None:
        ranges = index.ranges
        starts = np.where(ranges[..., 0] == ABSENT, np.iinfo(np.int64).max, ranges[..., 0]).min(1) - _BLOCK_BYTES
        end = -(-int(ranges[..., 1].max()) // _BLOCK_BYTES) * _BLOCK_BYTES
        self._folder.write(f"{index.shard}.idx", np.append(starts, end).astype("<u8").tobytes())
        self._splits.setdefault(split, []).append(index.shard)
        self._counts[index.shard] = len(index)

    def _write_filter(self, view: str) -> None:
        counts = dict(zip(self._counts, map(len, self._kept), strict=True))
        kept = np.concatenate([np.zeros(0, np.uint64), *self._kept]).astype("<u8")
        self._folder.write(f"{_META}/filter_{view}.idx", kept.tobytes())
        self._write_json(f"filter_{view}.json", {"version": 1, "filtered_shard_counts": counts})

    def _write_json(self, name: str, content: object) -> None:
        self._folder.write(f"{_META}/{name}", (json.dumps(content, indent=2) + "\n").encode())
