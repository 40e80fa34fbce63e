"""`kind: tfrecord`: TFRecord files of `tf.train.Example`, plain or GZIP; each record is a sample.

One feature has the bytes of an audio file. The others are columns, if they are text or few numbers. All checksums are
compared when a file is listed; its rows are another pass. A process that opens a record of a file it has not listed
reads this file once, too. The files of a bucket are plain: of a GZIP file, bytes are found by points that are kept in
memory.
"""

import functools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.config.section import Section
from headrace.errors import ConfigError, NotFoundError
from headrace.source_kinds import SourceKind
from headrace.sources.byte_ranges import range_stamp
from headrace.sources.corpus_rows import own_columns
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.kinds.gzip_points import Point, Stretches
from headrace.sources.kinds.tf_examples import Feature
from headrace.sources.kinds.tfrecord_records import read_records
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import Kept
from headrace.sources.named_files import absolute, files_in, files_of, joined, relative, root_of, stamp_of_file

_NAME = re.compile(r"[^/]*\.tf_?records?(-\d+-of-\d+)?(\.gz)?")
_AUDIO = (b"RIFF", b"fLaC", b"OggS", b"ID3", b"FORM", b"\xff\xfb", b"\xff\xf3")


class TfrecordOptions(Section):
    """The options of `kind: tfrecord`.

    Attributes:
        audio: the feature with the bytes of audio files; None for the only one that begins as such a file does.
    """

    audio: str | None = None


@dataclass(frozen=True, slots=True)
class _Contents:
    """The content of a file.

    Attributes:
        spans: int64 (records, 2), first byte and number of bytes of the audio in the content of the file.
        faults: number of a record → why it has no audio.
        lists: features that have several values in some record.
        left_out: features that are no columns: bytes that are no text, and more values than a column has.
        stretches: the content of a GZIP file; None for a plain one.
    """

    spans: NDArray[np.int64]
    faults: Mapping[int, str]
    lists: frozenset[str]
    left_out: frozenset[str]
    stretches: Stretches | None

    @property
    def num_bytes(self) -> int:
        return self.spans.nbytes + 100 * len(self.faults) + (self.stretches.num_bytes if self.stretches else 0)


_contents = Kept[_Contents](lambda contents: contents.num_bytes)


@dataclass(frozen=True)
class TfrecordItems:
    """The records of TFRecord files.

    Attributes:
        files: the files, in order.
        root: the folder to which paths in the listing are relative.
        options: see `TfrecordOptions`.
    """

    files: tuple[str, ...]
    root: str
    options: TfrecordOptions

    def items(self) -> Iterator[Item]:
        """See `Items.items`."""
        for file in self.files:
            path, contents = relative(self.root, file), self._contents(file)
            for number, (_, num_bytes) in enumerate(contents.spans.tolist()):
                yield Item(f"{path}/{number}", file, num_bytes, fault=contents.faults.get(number, ""))

    def place(self, path: str, stamp: FileStamp) -> Place:
        """See `Items.place`. A file that is known is not asked for its stamp."""
        name, _, number = path.rpartition("/")
        file, stamp = joined(self.root, name), replace(stamp, num_bytes=0)
        contents = self._contents(file, stamp) if file in self.files else None
        if contents is None or not number.isdecimal() or int(number) >= len(contents.spans):
            raise NotFoundError(f"{path}: there is no such record")
        start, num_bytes = contents.spans[int(number)].tolist()
        if contents.stretches is None:
            return Place(file, start)
        return Place(file, content=partial(contents.stretches.read, file, stamp, start, num_bytes))

    def rows(self) -> Iterator[Mapping[str, Any]]:
        """See `Items.rows`. Records that are damaged have a path alone."""
        lists, left_out = set[str](), {self._audio}
        for file in self.files:
            lists |= self._contents(file).lists
            left_out |= self._contents(file).left_out
        for file in self.files:
            for number, record in enumerate(read_records(file)):
                columns = {
                    name: _value(record.data, feature, is_list=name in lists)
                    for name, feature in sorted(record.features.items())
                    if name not in left_out
                }
                yield {"path": f"{relative(self.root, file)}/{number}", **own_columns(columns, ("path",))}

    def tables(self) -> Sequence[str]:
        """See `Items.tables`."""
        return self.files

    @functools.cached_property
    def _audio(self) -> str:
        """The feature with audio. Raises `ConfigError`."""
        if self.options.audio is not None:
            return self.options.audio
        record = next((record for file in self.files for record in read_records(file) if not record.fault), None)
        found = record.features if record else {}
        audio = [name for name, feature in found.items() if record and _is_audio(record.data, feature)]
        if len(audio) != 1:
            known = ", ".join(f"{name} ({feature.form})" for name, feature in sorted(found.items()))
            raise ConfigError(
                f"{self.files[0]}: expected one feature with the bytes of an audio file, found {len(audio)}; "
                f"source.options: {{audio: FEATURE}} names it. The features of the first record are {known or 'none'}"
            )
        return audio[0]

    def _contents(self, file: str, stamp: FileStamp | None = None) -> _Contents:
        """The content of a file, by the stamp of its ranges: that of now, or that of a listing."""
        if stamp is None and (now := stamp_of_file(file)):
            stamp = range_stamp(now, 0)
        return _contents.of((file, stamp, self._audio), lambda: _indexed(file, self._audio))


def _indexed(file: str, audio: str) -> _Contents:
    """Read a file once, with all its checksums."""
    points: list[Point] = []
    spans, faults, lists, left_out = [], {}, set[str](), set[str]()
    for number, record in enumerate(read_records(file, points)):
        span, fault = _audio_span(record.features.get(audio), audio)
        spans.append((record.start + span[0], span[1] - span[0]))
        if fault := record.fault or fault:
            faults[number] = f"record {number} of {file}: {fault}"
        lists |= {name for name, feature in record.features.items() if len(feature.values) > 1}
        left_out |= {name for name, feature in record.features.items() if not _is_column(record.data, feature)}
    array = np.array(spans, np.int64).reshape(-1, 2)
    stretches = Stretches(points, max((sum(span) for span in spans), default=0)) if points else None
    return _Contents(array, faults, frozenset(lists), frozenset(left_out), stretches)


def _audio_span(feature: Feature | None, name: str) -> tuple[tuple[int, int], str]:
    """First byte and end of the audio in a record; or the reason for its absence."""
    if feature is None or not feature.form:
        return (0, 0), f"it has no feature {name!r}"
    if feature.form != "bytes":
        return (0, 0), f"its feature {name!r} has numbers; expected the bytes of an audio file"
    if len(feature.values) != 1:
        number = "many" if feature.is_long else len(feature.values)
        return (0, 0), f"its feature {name!r} has {number} values; expected one"
    start, stop = feature.values[0]  # type: ignore[misc]  # of bytes: spans
    return (start, stop), ""


def _is_audio(data: bytes, feature: Feature) -> bool:
    return feature.form == "bytes" and len(feature.values) == 1 and data.startswith(_AUDIO, feature.values[0][0])  # type: ignore[index]


def _is_column(data: bytes, feature: Feature) -> bool:
    if feature.form != "bytes" or feature.is_long:
        return not feature.is_long
    try:
        return all("\0" not in data[start:stop].decode() for start, stop in feature.values)  # type: ignore[misc]
    except UnicodeDecodeError:
        return False


def _value(data: bytes, feature: Feature, *, is_list: bool) -> Any:  # noqa: ANN401 - a value of JSON
    """The value of a column: null without any, and for numbers that JSON does not have."""
    if feature.form == "bytes":
        values = [data[slice(*value)].decode() for value in feature.values]  # type: ignore[misc]
    else:
        values = [value if math.isfinite(value) else None for value in feature.values]  # type: ignore[arg-type,misc]
    return values if is_list else next(iter(values), None)


def _files_of(uri: str) -> list[str]:
    """The files that `source.uri` names; those of a folder that have the name of a TFRecord file."""
    in_folder = [file for file in files_in(absolute(uri)) if _NAME.fullmatch(file.rpartition("/")[2])]
    return in_folder or files_of(uri, (".tfrecord", ".tfrecords", ".tfrecord.gz"))


def _open(uri: str, options: TfrecordOptions, _exclude: Sequence[str]) -> ItemCorpus:
    files = _files_of(uri)
    return ItemCorpus(uri, TfrecordItems(tuple(files), root_of(uri, files), options))


KIND = SourceKind(_open, TfrecordOptions, columns={})
