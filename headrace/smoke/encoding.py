"""The check `latents_match_audio`: encodes one sample of each partition again and compares it with the stored latents.

A sample's audio is read by its byte range and encoded in a batch of one row. If its audio was encoded in windows, only
the part of the first window before the second one is compared. Imports torch.
"""

import hashlib
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, cast

from headrace.encoders import Encoder
from headrace.encoders.outputs import outputs_of
from headrace.encoding.alone import compared
from headrace.encoding.batches import ClipPiece, EncodingBatch
from headrace.encoding.clips import AudioClip
from headrace.encoding.engine import Engine
from headrace.encoding.plans import (
    AUDIO_FIELD_NOTE,
    AUDIO_SHARD_NOTE,
    COLUMN_NOTE,
    COLUMNS_NOTE,
    DTYPE_NOTE,
    ENCODER_NOTE,
    EncodingOptions,
    LatentDtype,
    NoLatents,
)
from headrace.encoding.reading import EncodingJob
from headrace.encoding.stats import Comparison
from headrace.encoding.text_shards import encoded_texts
from headrace.encoding.texts import json_texts, texts_of
from headrace.encoding.windows import plan_windows
from headrace.errors import BuildError, FormatError, HeadraceError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.typed_json import sample_json
from headrace.smoke.comparing import note
from headrace.stores.storage import Storage
from headrace.verification.excerpts import read_latents

if TYPE_CHECKING:
    import torch

Encoders = Callable[[], Sequence[Encoder]]
"""Loads an encoder, once for each device."""


@dataclass(frozen=True, slots=True)
class ReencodingCheck:
    """Encodes samples of one set of latents again and compares them.

    Attributes:
        audio: the folder of audio shards.
        latents: the folder of this set of latents.
        encoders: loads the encoder; called only if there is something to encode.
        seed: determines which samples are chosen.
        most: largest number of samples to encode, each of another partition.
    """

    audio: Storage
    latents: Storage
    encoders: Encoders
    seed: str
    most: int

    def faults(self, table: ShardTable, found: list[str]) -> list[Comparison]:
        """Encode one sample of each partition again. Adds differences to `found` and returns all comparisons."""
        chosen = self._chosen(table)
        if not chosen:
            return []
        encoder, *_ = self.encoders()
        compared_all = []
        for index, row in chosen:
            try:
                comparison = self._compared(encoder, index, row)
            except HeadraceError as error:
                note(found, f"{index.shard}: sample {index.key(row)!r} cannot be encoded again: {error}")
                continue
            compared_all.append(comparison)
            if not comparison.is_same:
                note(
                    found,
                    f"{index.shard}: sample {index.key(row)!r}: the stored latents differ from the encoder's result "
                    f"for its audio: {comparison}; remove the tar and its .idx, and build again; if the error "
                    "comes back, the encoder is not deterministic",
                )
        return compared_all

    def _chosen(self, table: ShardTable) -> list[tuple[ShardIndex, int]]:
        """A shard and a row for each partition, or for randomly drawn partitions if there are too many."""
        partitions: dict[tuple[int, int], list[str]] = {}
        for split, bucket, name in zip(table.split.tolist(), table.bucket.tolist(), table.names(), strict=True):
            partitions.setdefault((split, bucket), []).append(name)
        shards = sorted((min(names, key=self._lot) for names in partitions.values()), key=self._lot)[: self.most]
        return [choice for name in shards if (choice := self._row(name)) is not None]

    def _row(self, shard: str) -> tuple[ShardIndex, int] | None:
        index = read_index(self.latents, shard)
        if COLUMNS_NOTE in index.notes:
            return None
        rows = [row for row in range(len(index)) if index.row(row).tensors[0] is not None]
        return (index, min(rows, key=lambda row: self._lot(index.key(row)))) if rows else None

    def _lot(self, name: str) -> bytes:
        return hashlib.sha256(f"{self.seed}\n{name}".encode()).digest()

    def _compared(self, encoder: Encoder, index: ShardIndex, row: int) -> Comparison:
        import torch

        if index.notes.get(ENCODER_NOTE) != encoder.fingerprint:
            raise BuildError(
                f"the shard was encoded by encoder {index.notes.get(ENCODER_NOTE, '')[:12]}, the current encoder is "
                f"{encoder.fingerprint[:12]}; build these latents again"
            )
        column = index.notes.get(COLUMN_NOTE)
        alone, most = self._text_alone(encoder, index, row, column) if column else self._alone(encoder, index, row)
        stored = (read_latents(self.latents, index, row, count, number) for number, count in enumerate(most))
        found = tuple(torch.from_numpy(values) for values in stored if values is not None)
        beginning = tuple(values[:count] for values, count in zip(alone, most, strict=True))
        return compared(index.key(row), beginning, found, encoder, _dtype_of(index))

    def _alone(self, encoder: Encoder, index: ShardIndex, row: int) -> "tuple[tuple[torch.Tensor, ...], list[int]]":
        """Outputs (T, D) of a sample's first window, and of each the number of frames before the second window.

        A vector of several windows is not that of the first one: of it, nothing is compared.
        """
        with self._clip(index, row) as clip:
            windows = plan_windows(clip.num_frames_at(encoder.sample_rate_hz), encoder)
            dtype = _dtype_of(index)
            job = EncodingJob(0, (clip,), EncodingBatch((ClipPiece(0, 0, windows[0]),), encoder.info.padded_to))
            (encoded,) = Engine([encoder], dtype, EncodingOptions()).run([job])
        ((_, made),) = encoded.rows
        if isinstance(made, NoLatents):
            raise BuildError(made.reason)
        if len(windows) == 1:
            return made, [len(values) for values in made]
        return made, [windows[1].start // output.hop if output.has_time else 0 for output in outputs_of(encoder)]

    def _text_alone(
        self, encoder: Encoder, index: ShardIndex, row: int, column: str
    ) -> "tuple[tuple[torch.Tensor, ...], list[int]]":
        """Latents of the texts that a sample's audio shard has, and of each output the number of rows."""
        audio = read_index(self.audio, index.note(AUDIO_SHARD_NOTE))
        if (place := audio.find(index.key(row))) is None:
            raise _without_sample(audio)
        (text,) = json_texts(self.audio, audio, [place])
        value = sample_json(text, audio.shard, index.key(row)).get(column)
        texts = texts_of(value, column, f"{audio.shard}: {index.key(row)}")
        if texts is None:
            raise BuildError(f"its {column} is null in {audio.shard}; build these latents again")
        made = encoded_texts(encoder, _dtype_of(index), texts, audio.shard, index.key(row))
        if isinstance(made, NoLatents):
            raise BuildError(made.reason)
        return made, [len(values) for values in made]

    @contextmanager
    def _clip(self, index: ShardIndex, row: int) -> Iterator[AudioClip]:
        """The sample's audio as a temporary file; only its byte range is read."""
        audio = read_index(self.audio, index.note(AUDIO_SHARD_NOTE))
        field = index.notes.get(AUDIO_FIELD_NOTE, "")
        if (place := audio.find(index.key(row))) is None or (found := audio.audio_of(place, field)) is None:
            raise _without_sample(audio)
        (blob,) = self.audio.read_ranges(audio.shard, [found.span])
        with tempfile.NamedTemporaryFile(prefix="headrace-", suffix=".audio") as file:
            file.write(blob)
            file.flush()
            facts = (int(audio.num_frames[place]), int(audio.sample_rate_hz[place]), found.num_channels)
            yield AudioClip(audio.shard, Path(file.name), audio.key(place), (0, len(blob)), *facts)


def _without_sample(audio: ShardIndex) -> FormatError:
    return FormatError(f"the audio shard {audio.shard} does not contain this sample; build these latents again")


def _dtype_of(index: ShardIndex) -> LatentDtype:
    """The dtype in which floats of a shard are stored."""
    return cast("LatentDtype", index.note(DTYPE_NOTE))
