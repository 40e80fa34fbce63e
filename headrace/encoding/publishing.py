"""Writes latent shards on other threads, while the devices compute what comes after.

The `.pth` of a sample is made as soon as the sample is encoded; a shard is put together and written as soon as its last
sample is. So most of the work is done before the end of a group, where nearly all of its shards are completed at once.
"""

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any, NamedTuple, Self, TypeAlias

from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.encoders.protocol import Encoder, frame_rate_hz
from headrace.encoding.made import Made
from headrace.encoding.plans import (
    AUDIO_FIELD_NOTE,
    AUDIO_SHARD_NOTE,
    DTYPE_NOTE,
    ENCODER_NOTE,
    SECONDS_NOTE,
    EncodingRun,
    LatentDtype,
    LatentPlan,
    NoLatents,
)
from headrace.encoding.sources import AudioShard
from headrace.errors import BuildError
from headrace.format.indexes.index import FRAME_RATE_NOTE, REFUSED_NOTE, ShardIndex
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry
from headrace.format.manifests.manifests import ManifestRejection
from headrace.format.shards.writer import ShardWriter
from headrace.format.tensors.outputs import OUTPUTS, Output, hidden_output, outputs_as_json
from headrace.format.tensors.pth import SavedOutputs, saved_outputs
from headrace.format.tensors.tensors import storage_dtype
from headrace.format.typed_json import sample_json
from headrace.machine import num_cores
from headrace.ordered import Backlog
from headrace.output_kinds import HIDDEN

_MOST_THREADS = 4
_WAITING_BYTES = 512 << 20  # of latents in shards that wait to be written, or are being written


class _Saved(NamedTuple):
    """The `.pth` of a sample, and the frames of its first output."""

    pth: SavedOutputs
    num_frames: int


Saved: TypeAlias = _Saved | NoLatents


@dataclass(slots=True)
class LatentPublisher:
    """Makes the `.pth` of samples and writes shards of them; a context manager.

    What was added is written, also after an error.

    Attributes:
        encoder: the encoder.
        outputs: its outputs, as shards describe them.
        route: the folders and the dtype.
    """

    encoder: Encoder
    outputs: tuple[Output, ...]
    route: EncodingRun
    _threads: ThreadPoolExecutor = field(init=False)
    _waiting: Backlog[tuple[str, ShardIndex]] = field(default_factory=Backlog)
    _published: dict[str, ShardIndex] = field(default_factory=dict)

    def __enter__(self) -> Self:
        """The publisher itself."""
        self._threads = ThreadPoolExecutor(min(_MOST_THREADS, num_cores()), "headrace-publish")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Write what was added."""
        self._threads.shutdown()

    def save(self, made: Made) -> Future[Saved]:
        """Start to make the `.pth` of a sample."""
        return self._threads.submit(self._saved, made)

    def add(
        self, plan: LatentPlan, shard: AudioShard, samples: Sequence[Future[Saved]], made_by: Mapping[str, str]
    ) -> None:
        """Start to write a shard of these samples, in their order. Waits while too much waits to be written.

        Args:
            plan: the shard.
            shard: the audio shard that it is made from.
            samples: from `save`.
            made_by: the note of `headrace.format.manifests.made_by`.

        Raises:
            Exception: a shard that was added before could not be written.
        """
        num_bytes = plan.seconds * stored_bytes_per_second(self.encoder, self.route.dtype)
        self._waiting.add(self._threads.submit(self._publish, plan, shard, samples, made_by), num_bytes)
        self._published |= self._waiting.take(_WAITING_BYTES)

    def indexes(self) -> dict[str, ShardIndex]:
        """Wait for all shards. Returns their indexes by input digest."""
        self._published |= self._waiting.take(0)
        return self._published

    def _saved(self, made: Made) -> Saved:
        if isinstance(made, NoLatents):
            return made
        return _Saved(saved_outputs(self.outputs, made), len(made[0]))

    def _publish(
        self, plan: LatentPlan, shard: AudioShard, samples: Sequence[Future[Saved]], made_by: Mapping[str, str]
    ) -> tuple[str, ShardIndex]:
        """Write one latent shard. Returns its input digest and its index.

        The shard has `<key>.pth` and `<key>.json` for each sample of the audio shard, in the same order. A sample
        without latents has only its JSON, which has the reason.
        """
        refused: list[ManifestRejection] = []
        with ShardWriter(self.route.storage, plan.place) as writer:
            for clip, text, sample in zip(shard.clips, shard.texts, samples, strict=True):
                saved = sample.result()  # it was started before this shard, so that a thread has it
                content = sample_json(text, plan.audio_shard, clip.key)
                if isinstance(saved, NoLatents):
                    path = str(content.get("headrace", {}).get("source", ""))
                    refused.append(ManifestRejection(path, saved.code, saved.reason, clip.key))
                    about = latent_json(content, self.encoder, self.outputs, saved)
                    writer.add(clip.key, {"json": (about, len(about))})
                else:
                    _add(writer, clip.key, saved, latent_json(content, self.encoder, self.outputs))
            notes = {
                AUDIO_SHARD_NOTE: plan.audio_shard,
                DTYPE_NOTE: self.route.dtype,
                ENCODER_NOTE: self.encoder.fingerprint,
                FRAME_RATE_NOTE: repr(_frame_rate_hz(self.encoder, self.outputs)),
                REFUSED_NOTE: json.dumps([asdict(refusal) for refusal in refused], ensure_ascii=False),
                SECONDS_NOTE: repr(round(shard.seconds, 6)),
                **made_by,
                **({AUDIO_FIELD_NOTE: self.route.audio_field} if self.route.audio_field else {}),
                **({OUTPUTS: outputs_as_json(self.outputs)} if self.outputs[0].is_named else {}),
            }
            if writer.keys != [clip.key for clip in shard.clips]:
                raise BuildError(
                    f"{plan.audio_shard}: its latents would have other samples; this is an error in Headrace, please "
                    "report it"
                )
            has_tensors = len(refused) < len(shard.clips)
            index = writer.publish(plan.input_digest, notes, self.outputs if has_tensors else ())
            return plan.input_digest, index


def _add(writer: ShardWriter, key: str, saved: _Saved, about: bytes) -> None:
    """Append a sample with latents to a shard."""
    tensors = tuple(PlacedTensor(tensor.place, tensor.crc32) for tensor in saved.pth.tensors)
    facts = SampleEntry(key, {}, saved.num_frames, tensors=tensors)
    writer.add(key, {"pth": (saved.pth.blob, len(saved.pth.blob)), "json": (about, len(about))}, facts)


def stored_outputs(encoder: Encoder, dtype: LatentDtype) -> tuple[Output, ...]:
    """The outputs of an encoder as shards describe them, if floats are stored in a dtype."""
    return tuple(_stored_output(output, dtype, encoder.sample_rate_hz) for output in outputs_of(encoder))


def _stored_output(output: EncoderOutput, dtype: LatentDtype, sample_rate_hz: int) -> Output:
    if output.name == HIDDEN:
        return hidden_output(dtype)
    hop, unit = output.hop.as_integer_ratio()  # a hop of 316.8 at 48 kHz is one of 1584 at 240 kHz
    return Output(output.name, output.kind, output.dtype or dtype, hop, sample_rate_hz * unit if output.has_time else 0)


def stored_bytes_per_second(encoder: Encoder, dtype: LatentDtype) -> float:
    """Bytes of latents of a second of audio, without vectors."""
    return sum(
        encoder.sample_rate_hz / float(output.hop) * output.width * storage_dtype(output.dtype or dtype).itemsize
        for output in outputs_of(encoder)
        if output.has_time
    )


def latent_json(
    audio: Mapping[str, Any], encoder: Encoder, outputs: Sequence[Output], rejection: NoLatents | None = None
) -> bytes:
    """The JSON of a latent sample: that of the audio sample, with facts about the encoder under `headrace`.

    Args:
        audio: content of the audio sample's JSON.
        encoder: the encoder of the latents.
        outputs: its outputs; they are described if the encoder names them.
        rejection: why the sample has no latents; None if it has.
    """
    facts: dict[str, object] = {
        "encoder": encoder.fingerprint,
        "frame_rate_hz": _frame_rate_hz(encoder, outputs),
    }
    if outputs[0].is_named:
        facts[OUTPUTS] = [output.described() for output in outputs]
    refused = {} if rejection is None else {"refused": rejection.code}
    content = {**audio, "headrace": {**audio.get("headrace", {}), **facts, **refused}}
    return json.dumps(content, ensure_ascii=False).encode()


def _frame_rate_hz(encoder: Encoder, outputs: Sequence[Output]) -> float:
    """Frames per second of the first output; 0 for a vector."""
    return outputs[0].frame_rate_hz if outputs[0].is_named else frame_rate_hz(encoder)
