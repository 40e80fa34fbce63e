"""Exports Parquet files that `datasets.load_dataset` plays: audio as `struct<bytes, path>`, metadata as columns.

Files are `data/train-00000-of-00012.parquet`, with a card in `README.md`, which is not replaced once it is edited.
The card does not list the files: `datasets` would take what it kept of an earlier export with the same list.
"""

import json
import math
import re
from collections import Counter
from typing import Any

from headrace.errors import FormatError, MissingDependencyError
from headrace.exports.exporter import ExportFields, ExportSample, Takes, Written, user_metadata
from headrace.exports.folder import ExportFolder
from headrace.format.beside.column_table import ColumnKind, ColumnSpec
from headrace.format.tensors.pth import stored_latents
from headrace.format.tensors.unpickling import unpickled
from headrace.output_kinds import OutputKind
from headrace.streaming.output_fields import OutputField

_FILE_BYTES = 500 << 20
_GROUP_BYTES = 100_000_000
_CHUNKS = {"min_chunk_size": 256 << 10, "max_chunk_size": 1 << 20, "norm_level": 0}
_OPTIONS = {"write_page_index": True, "use_content_defined_chunking": _CHUNKS}
_DTYPES = {ColumnKind.INT: "int64", ColumnKind.FLOAT: "float64", ColumnKind.BOOL: "bool"}


class ParquetExporter:
    """Parquet files in row groups of at most 100 MB. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._rows: list[dict[str, Any]] = []
        self._num_bytes = self._num_rows = 0
        self._split: str | None = None
        self._numbers: Counter[str] = Counter()

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`. Raises `MissingDependencyError` without pyarrow."""
        try:
            import pyarrow.parquet  # noqa: PLC0415 - of the extra
        except ImportError as error:
            raise MissingDependencyError("--to parquet needs pyarrow: pip install 'headrace[parquet]'") from error
        fields.check_audio("parquet", most=None)
        self._arrow = pyarrow
        self._fields = fields
        self._columns = fields.columns or ()
        latents = {_column_of(name, field) for name, found in fields.latents.items() for field in found}
        taken = {"key", *fields.audio, *latents}
        names = [spec.name for spec in self._columns]
        self._names = {name: f"metadata.{name}" if name in taken else name for name in names}
        self._schema = self._arrow.schema(
            [(name, self._type(feature)) for name, feature in self._features().items()],
            {"huggingface": json.dumps({"info": {"features": self._features()}})},
        )
        return Takes.SAMPLES

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        if sample.split != self._split or self._num_rows == self._rows_per_file(sample.split):
            self._close()
        if self._split is None:
            self._open(sample.split)
        num_bytes = sum(len(one.blob) for one in sample.audio.values()) + sum(map(len, sample.latents.values()))
        if self._num_bytes + num_bytes > _GROUP_BYTES:
            self._flush()
        self._rows.append(self._row(sample))
        self._num_bytes += num_bytes
        self._num_rows += 1

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        self._close()
        head = f"---\npretty_name: {json.dumps(self._fields.name)}\ntags: [audio]\n---\n"
        self._folder.write_once("README.md", f"{head}\n# {self._fields.name}\n".encode())
        return Written(self._numbers.total())

    def _features(self) -> dict[str, Any]:
        """Name of each column → its feature, in the form of `datasets`."""
        known = {self._names[spec.name]: _value(_DTYPES.get(spec.kind, "string")) for spec in self._columns}
        columns = {"metadata": _value("string")} if self._fields.columns is None else known
        audio = {name: {"_type": "Audio"} for name in self._fields.audio}
        outputs = ((name, field) for name, fields in self._fields.latents.items() for field in fields)
        latents = {_column_of(name, field): _feature_of(field) for name, field in outputs}
        return {"key": _value("string"), **audio, **columns, **latents}

    def _type(self, feature: dict[str, Any]) -> Any:  # noqa: ANN401 - a type of pyarrow
        if feature["_type"] == "Audio":
            return self._arrow.struct([("bytes", self._arrow.binary()), ("path", self._arrow.string())])
        if feature["_type"] == "List":
            return self._arrow.list_(self._type(feature["feature"]))
        return self._arrow.type_for_alias(feature["dtype"])

    def _row(self, sample: ExportSample) -> dict[str, Any]:
        metadata = user_metadata(sample.metadata)
        audio = {
            name: {"bytes": one.blob, "path": f"{sample.name}.{one.extension}"} for name, one in sample.audio.items()
        }
        latents = self._latents_of(sample)
        if self._fields.columns is None:
            return {"key": sample.key, **audio, "metadata": json.dumps(metadata, ensure_ascii=False), **latents}
        if unknown := sorted(metadata.keys() - self._names.keys()):
            raise FormatError(f"sample {sample.key!r}: no column is called {unknown[0]!r}; build the columns again")
        values = {self._names[spec.name]: _plain(spec, metadata.get(spec.name)) for spec in self._columns}
        return {"key": sample.key, **audio, **values, **latents}

    def _latents_of(self, sample: ExportSample) -> dict[str, Any]:
        """The outputs of a sample by the names of their columns, as lists."""
        found: dict[str, Any] = {}
        for name, blob in sample.latents.items():
            fields = self._fields.latents[name]
            if not fields[0].is_named:
                found[name] = stored_latents(blob)[0].float().tolist()
                continue
            stored = unpickled(blob)
            found |= {_column_of(name, field): _lists(stored[field.output], field) for field in fields}
        return found

    def _rows_per_file(self, split: str) -> int:
        counts = self._fields.splits
        num_bytes = self._fields.num_bytes * counts[split] / sum(counts.values())
        return math.ceil(counts[split] / max(math.ceil(num_bytes / _FILE_BYTES), 1))

    def _open(self, split: str) -> None:
        self._split = split
        self._file = self._folder.scratch()
        writer = self._arrow.parquet.ParquetWriter(self._file, self._schema, **_OPTIONS)
        self._writer = self._folder.until_end(writer)

    def _flush(self) -> None:
        """Write the rows as a row group."""
        if not self._rows:
            return
        try:
            table = self._arrow.Table.from_pylist(self._rows, self._schema)
        except self._arrow.ArrowException as error:
            first = self._rows[0]["key"]
            raise FormatError(f"samples from {first!r} on: not of the type of their columns: {error}") from error
        self._writer.write_table(table, row_group_size=len(self._rows))
        self._rows, self._num_bytes = [], 0

    def _close(self) -> None:
        """Complete the present file, if there is one."""
        if self._split is None:
            return
        self._flush()
        self._writer.close()
        number, self._numbers[self._split] = self._numbers[self._split], self._numbers[self._split] + 1
        num_files = math.ceil(self._fields.splits[self._split] / self._rows_per_file(self._split))
        with self._file:
            self._file.seek(0)
            name = re.sub(r"\W", "_", self._split)  # `datasets` finds splits by the names of files
            self._folder.write(f"data/{name}-{number:05d}-of-{num_files:05d}.parquet", self._file)
        self._split, self._num_rows = None, 0


def _value(dtype: str) -> dict[str, Any]:
    return {"dtype": dtype, "_type": "Value"}


def _plain(spec: ColumnSpec, value: Any) -> Any:  # noqa: ANN401 - the user's values
    """A value as its column holds it: lists and objects are JSON."""
    return value if value is None or not spec.kind.is_nested else json.dumps(value, ensure_ascii=False)


def _column_of(name: str, field: OutputField) -> str:
    """Name of the column of an output: that of the set, or that of the output if the encoder names it."""
    return field.values if field.is_named else name


def _lists(values: Any, field: OutputField) -> list[Any]:  # noqa: ANN401 - a tensor
    """The values of an output as `_feature_of` describes them."""
    found: list[Any] = (values.reshape(-1, values.shape[-1]) if field.is_choice else values).tolist()
    return found


def _feature_of(field: OutputField) -> dict[str, Any]:
    """The feature of an output: lists of frames or of vectors to choose from, or one list of a vector."""
    numbers = {"_type": "List", "feature": _value("int32" if field.kind is OutputKind.CODES else "float32")}
    return {"_type": "List", "feature": numbers} if field.has_time or field.is_choice else numbers
