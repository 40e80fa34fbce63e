"""Encodes a sample again and compares the result with the stored latents.

A sample's audio is read by its byte range and encoded in a batch of one row. If its audio was encoded in windows, only
the part of the first window before the second one is compared. Imports torch.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from headrace.encoders import Encoder
from headrace.encoders.outputs import outputs_of
from headrace.encoding.alone import compared_outputs
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
from headrace.encoding.sources import sample_clip
from headrace.encoding.stats import Comparison
from headrace.encoding.text_shards import encoded_texts
from headrace.encoding.texts import column_values, json_texts, texts_of
from headrace.encoding.windows import plan_windows
from headrace.errors import BuildError, FormatError
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_files import read_index
from headrace.format.typed_json import sample_json
from headrace.stores.storage import Storage
from headrace.verification.excerpts import read_latents

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True)
class EncodedAgain:
    """Encodes samples of one set of latents again.

    Attributes:
        audio: the folder of audio shards.
        latents: the folder of this set of latents.
        encoder: the encoder.
        columns: the folder of the set of columns that has the texts; None if the JSON has them, or for audio.
    """

    audio: Storage
    latents: Storage
    encoder: Encoder
    columns: Storage | None = None

    def compared(self, index: ShardIndex, row: int) -> dict[str, Comparison]:
        """Output → the comparison of a sample's stored values with the encoder's result for its audio.

        Args:
            index: index of the sample's latent shard.
            row: the sample.

        Raises:
            BuildError: another encoder made the shard, or the encoder fails or gives no latents now.
            HeadraceError: the audio or the latents cannot be read.
        """
        import torch

        made_by = index.notes.get(ENCODER_NOTE, "")
        if made_by != self.encoder.fingerprint:
            raise BuildError(
                f"the shard was encoded by encoder {made_by[:12]}, the current encoder is "
                f"{self.encoder.fingerprint[:12]}; build these latents again"
            )
        column = index.notes.get(COLUMN_NOTE)
        alone, most = self._text_alone(index, row, column) if column else self._alone(index, row)
        stored = (read_latents(self.latents, index, row, count, number) for number, count in enumerate(most))
        found = tuple(torch.from_numpy(values) for values in stored if values is not None)
        beginning = tuple(values[:count] for values, count in zip(alone, most, strict=True))
        return compared_outputs(index.key(row), beginning, found, self.encoder, _dtype_of(index))

    def _alone(self, index: ShardIndex, row: int) -> "tuple[tuple[torch.Tensor, ...], list[int]]":
        """Outputs (T, D) of a sample's first window, and of each the number of frames before the second window.

        A vector of several windows is not that of the first one: of it, nothing is compared.
        """
        encoder = self.encoder
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

    def _text_alone(self, index: ShardIndex, row: int, column: str) -> "tuple[tuple[torch.Tensor, ...], list[int]]":
        """Latents of the texts that a sample's audio shard has, and of each output the number of rows."""
        audio = read_index(self.audio, index.note(AUDIO_SHARD_NOTE))
        if (place := audio.find(index.key(row))) is None:
            raise _without_sample(audio)
        if (name := index.notes.get(COLUMNS_NOTE)) is not None and self.columns is not None:
            value = column_values(self.columns, name, column.partition(".")[2])[place]
        else:
            (text,) = json_texts(self.audio, audio, [place])
            value = sample_json(text, audio.shard, index.key(row)).get(column)
        texts = texts_of(value, column, f"{audio.shard}: {index.key(row)}")
        if texts is None:
            raise BuildError(f"its {column} is null in {audio.shard}; build these latents again")
        made = encoded_texts(self.encoder, _dtype_of(index), texts, audio.shard, index.key(row))
        if isinstance(made, NoLatents):
            raise BuildError(made.reason)
        return made, [len(values) for values in made]

    @contextmanager
    def _clip(self, index: ShardIndex, row: int) -> Iterator[AudioClip]:
        audio = read_index(self.audio, index.note(AUDIO_SHARD_NOTE))
        if (place := audio.find(index.key(row))) is None:
            raise _without_sample(audio)
        with sample_clip(self.audio, audio, place, index.notes.get(AUDIO_FIELD_NOTE, "")) as clip:
            yield clip


def _without_sample(audio: ShardIndex) -> FormatError:
    return FormatError(f"the audio shard {audio.shard} does not contain this sample; build these latents again")


def _dtype_of(index: ShardIndex) -> LatentDtype:
    """The dtype in which floats of a shard are stored."""
    return cast("LatentDtype", index.note(DTYPE_NOTE))
