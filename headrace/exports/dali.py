"""Exports tars with the indexes of DALI's webdataset reader: `train_000000.idx` in the form of its `wds2idx`.

A line is a sample: extension, first byte, size and name of each of its files. Headrace's own index of a tar is
`train_000000.headrace.idx`.
"""

from headrace.errors import ConfigError
from headrace.exports.exporter import ExportFields, ExportSample, ExportShard, Takes, Written
from headrace.exports.folder import ExportFolder
from headrace.exports.webdataset import WebDatasetExporter
from headrace.format.indexes.index import ABSENT, ShardIndex, index_name
from headrace.format.indexes.index_files import other_name

_VERSION = "v1.2"


class DaliExporter:
    """Tars and their indexes. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._tars = WebDatasetExporter(folder, self._index, other_name)

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        return self._tars.begin(fields)

    def add_shard(self, shard: ExportShard) -> None:
        """See `Exporter.add_shard`."""
        self._tars.add_shard(shard)

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        self._tars.add(sample)

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        return self._tars.finish()

    def _index(self, _split: str, index: ShardIndex) -> None:
        lines = [f"{_VERSION} {len(index)}", *(_line(index, row) for row in range(len(index)))]
        self._folder.write(index_name(index.shard), ("\n".join(lines) + "\n").encode())


def _line(index: ShardIndex, row: int) -> str:
    """The files of a sample, in the order of the tar."""
    key = index.key(row)
    if " " in key:
        raise ConfigError(f"sample {key!r}: an index of DALI has no place for a space in a key; use key_form: slug")
    spans = zip(index.fields, index.ranges[row].tolist(), strict=True)
    files = sorted((start, stop - start, field) for field, (start, stop) in spans if start != ABSENT)
    return " ".join(f"{field} {start} {size} {key}.{field}" for start, size, field in files)
