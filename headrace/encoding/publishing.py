"""Puts latent shards together and writes them, and describes their outputs."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple, TypeAlias

from headrace.encoders.outputs import EncoderOutput, outputs_of
from headrace.encoders.protocol import Encoder, frame_rate_hz
from headrace.encoding.made import Made
from headrace.encoding.plans import (
    AUDIO_FIELD_NOTE,
    AUDIO_SHARD_NOTE,
    COLUMN_NOTE,
    COLUMNS_NOTE,
    DTYPE_NOTE,
    ENCODER_NOTE,
    SECONDS_NOTE,
    EncodingRun,
    LatentDtype,
    LatentPlan,
    NoLatents,
)
from headrace.errors import BuildError
from headrace.format.indexes.index import FRAME_RATE_NOTE, REFUSED_NOTE, ShardIndex
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry
from headrace.format.manifests.manifests import ManifestRejection
from headrace.format.rejects import REFUSED
from headrace.format.shards.writer import ShardWriter
from headrace.format.tensors.outputs import OUTPUTS, Output, hidden_output, outputs_as_json
from headrace.format.tensors.pth import SavedOutputs, saved_outputs
from headrace.format.typed_json import sample_json
from headrace.output_kinds import HIDDEN


class _Saved(NamedTuple):
    """The `.pth` of a sample, and the frames of its first output."""

    pth: SavedOutputs
    num_frames: int


Saved: TypeAlias = _Saved | NoLatents


@dataclass(frozen=True, slots=True)
class MadeShard:
    """The content of a latent shard.

    Attributes:
        plan: the shard.
        seconds: length of the audio.
        keys: keys of the samples, in the order of the audio shard.
        texts: the JSON of their audio samples.
        samples: their latents, or why they have none, from `saved`.
        made_by: the note of `headrace.format.manifests.made_by`.
        facts: what the JSON of each says of how its latents were made, besides the encoder; empty for nothing.
    """

    plan: LatentPlan
    seconds: float
    keys: Sequence[str]
    texts: Sequence[bytes]
    samples: Sequence[Saved]
    made_by: Mapping[str, str]
    facts: Sequence[Mapping[str, object]] = ()


def saved(outputs: Sequence[Output], made: Made) -> Saved:
    """The latents of a sample as their shard holds them."""
    return made if isinstance(made, NoLatents) else _Saved(saved_outputs(outputs, made), len(made[0]))


def publish_shard(route: EncodingRun, encoder: Encoder, outputs: tuple[Output, ...], shard: MadeShard) -> ShardIndex:
    """Write one latent shard.

    The shard has `<key>.pth` and `<key>.json` for each sample of the audio shard, in the same order. A sample without
    latents has only its JSON, which has the reason.
    """
    refused: list[ManifestRejection] = []
    audio_shard, facts = shard.plan.audio_shard, shard.facts or [{}] * len(shard.keys)
    with ShardWriter(route.storage, shard.plan.place) as writer:
        for key, text, sample, fact in zip(shard.keys, shard.texts, shard.samples, facts, strict=True):
            content = sample_json(text, audio_shard, key)
            if isinstance(sample, NoLatents):
                path = str(content.get("headrace", {}).get("source", ""))
                refused.append(ManifestRejection(path, sample.code, sample.reason, key))
                about = latent_json(content, encoder, outputs, {**fact, REFUSED: sample.code})
                writer.add(key, {"json": (about, len(about))})
            else:
                _add(writer, key, sample, latent_json(content, encoder, outputs, fact))
        notes = {
            AUDIO_SHARD_NOTE: audio_shard,
            DTYPE_NOTE: route.dtype,
            ENCODER_NOTE: encoder.fingerprint,
            FRAME_RATE_NOTE: repr(_frame_rate_hz(encoder, outputs)),
            REFUSED_NOTE: json.dumps([asdict(refusal) for refusal in refused], ensure_ascii=False),
            SECONDS_NOTE: repr(round(shard.seconds, 6)),
            **shard.made_by,
            **({AUDIO_FIELD_NOTE: route.audio_field} if route.audio_field else {}),
            **({COLUMN_NOTE: route.column} if route.column else {}),
            **({COLUMNS_NOTE: shard.plan.columns} if shard.plan.columns else {}),
            **({OUTPUTS: outputs_as_json(outputs)} if outputs[0].is_named else {}),
        }
        if writer.keys != list(shard.keys):
            raise BuildError(
                f"{audio_shard}: its latents would have other samples; this is an error in Headrace, please report it"
            )
        has_tensors = len(refused) < len(shard.keys)
        return writer.publish(shard.plan.input_digest, notes, outputs if has_tensors else ())


def stored_outputs(encoder: Encoder, dtype: LatentDtype) -> tuple[Output, ...]:
    """The outputs of an encoder as shards describe them, if floats are stored in a dtype."""
    return tuple(_stored_output(output, dtype, encoder.sample_rate_hz) for output in outputs_of(encoder))


def _stored_output(output: EncoderOutput, dtype: LatentDtype, sample_rate_hz: int) -> Output:
    if output.name == HIDDEN:
        return hidden_output(dtype)
    hop, unit = output.hop.as_integer_ratio()  # a hop of 316.8 at 48 kHz is one of 1584 at 240 kHz
    rate_hz = sample_rate_hz * unit if hop else 0
    return Output(output.name, output.kind, output.dtype or dtype, hop, rate_hz, output.is_choice)


def _add(writer: ShardWriter, key: str, saved: _Saved, about: bytes) -> None:
    """Append a sample with latents to a shard."""
    tensors = tuple(PlacedTensor(tensor.place, tensor.crc32) for tensor in saved.pth.tensors)
    facts = SampleEntry(key, {}, saved.num_frames, tensors=tensors)
    writer.add(key, {"pth": (saved.pth.blob, len(saved.pth.blob)), "json": (about, len(about))}, facts)


def latent_json(
    audio: Mapping[str, Any], encoder: Encoder, outputs: Sequence[Output], more: Mapping[str, object]
) -> bytes:
    """The JSON of a latent sample: that of the audio sample, with facts about the encoder under `headrace`.

    Args:
        audio: content of the audio sample's JSON.
        encoder: the encoder of the latents.
        outputs: its outputs; they are described if the encoder names them.
        more: other facts, such as why the sample has no latents.
    """
    facts: dict[str, object] = {
        "encoder": encoder.fingerprint,
        "frame_rate_hz": _frame_rate_hz(encoder, outputs),
    }
    if outputs[0].is_named:
        facts[OUTPUTS] = [output.described() for output in outputs]
    content = {**audio, "headrace": {**audio.get("headrace", {}), **facts, **more}}
    return json.dumps(content, ensure_ascii=False).encode()


def _frame_rate_hz(encoder: Encoder, outputs: Sequence[Output]) -> float:
    """Frames per second of the first output; 0 for a vector."""
    return outputs[0].frame_rate_hz if outputs[0].is_named else frame_rate_hz(encoder)
