"""Reduces samples from a loader to the facts that the smoke test compares: length, checksum, valid range. Pure."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace import checksums
from headrace.output_kinds import CONTEXT_SECONDS

if TYPE_CHECKING:
    import torch

_FRAMES_OFF = 2
_SHARE_OFF = 0.01
_SECONDS_SHORT = 0.05  # an encoder that does not pad its windows gives no frames for the last of the audio
_FULL_SCALE = 1 - 2.0**-15
_ONE_FIELD = ("audio",)
_GREATEST_CRC32 = (1 << 32) - 1


@dataclass(frozen=True, slots=True)
class ArrivedSample:
    """Facts of one sample from a loader.

    Attributes:
        key: the sample's key.
        num_frames: number of PCM or latent frames.
        width: channels of audio (`width_of`), or D of latents.
        sample_rate_hz: 0 for latents.
        is_finite: whether every value is finite.
        content: CRC-32 of the values.
        contradiction: differences between the sample and its JSON; empty if they agree.
        exceeds: whether audio has values outside [-1, 1], as lossy codings and recordings of floats may.
        full_scale: share of the values of audio that are at full scale of 16 bits, or beyond it.
    """

    key: str
    num_frames: int
    width: int
    sample_rate_hz: int
    is_finite: bool
    content: int = 0
    contradiction: str = ""
    exceeds: bool = False
    full_scale: float = 0.0


@dataclass(frozen=True, slots=True)
class JoinedArrival:
    """Facts of one audio sample that was read together with its latents.

    Attributes:
        key: the sample's key.
        contents: CRC-32 of the values of the audio and of each set of latents, in the order of the folders.
        zeros: numbers of those sets of latents, from 1, whose values are all zero, as in place of a rejected vector.
    """

    key: str
    contents: tuple[int, ...]
    zeros: frozenset[int] = frozenset()


def arrived_sample(sample: Mapping[str, Any]) -> ArrivedSample:
    """Facts of one sample's dict."""
    key, stated = sample["__key__"], _stated(sample.get("metadata"))
    if "sample_rate" in sample:
        fields = {name: sample[name] for name in sample.get("__audio__", _ONE_FIELD)}
        return _audio(key, fields, int(sample["sample_rate"]), stated)
    return _latents(key, _outputs_of(sample, stated), stated)


def arrived_batch(batch: Mapping[str, Any]) -> Iterator[ArrivedSample]:
    """Facts of the rows of a batch, without padding rows."""
    keys: Sequence[str] = batch["keys"]
    padding = batch["is_padding"].tolist() if "is_padding" in batch else [False] * len(keys)
    for row, key in enumerate(keys):
        if padding[row]:
            continue
        stated = _stated(batch["metadata"][row])
        if "num_frames" in batch:
            yield _audio(key, _fields_of(batch, row), int(batch["sample_rate"][row]), stated)
        else:
            yield _latents(key, _outputs_of(batch, stated, row), stated)


def joined_batch(batch: Mapping[str, Any], sets: Sequence[Mapping[str, str]]) -> Iterator[JoinedArrival]:
    """Facts of the rows of a batch of audio with latents, without padding rows.

    Args:
        batch: the batch from the loader.
        sets: for each set of latents, the fields of its outputs: that of the values → that of the lengths, or `""`.
    """
    for row, key in enumerate(batch["keys"]):
        if not batch["is_padding"][row]:
            audio = _crc_of(_fields_of(batch, row))
            found = [[_cut(batch, values, length, row) for values, length in one.items()] for one in sets]
            zeros = {number for number, one in enumerate(found, 1) if not any(values.any() for values in one)}
            yield JoinedArrival(key, (audio, *map(_content_of_all, found)), frozenset(zeros))


def content_of(values: "torch.Tensor") -> int:
    """CRC-32 of the bytes of a tensor in row-major order."""
    import torch

    return checksums.crc32(values.contiguous().view(torch.uint8).numpy().data) if values.numel() else 0


def width_of(num_channels: Sequence[int]) -> int:
    """One number for the channels of all audio fields: that of the only field, else a CRC-32 of all."""
    return num_channels[0] if len(num_channels) == 1 else checksums.crc32(" ".join(map(str, num_channels)).encode())


def _fields_of(batch: Mapping[str, Any], row: int) -> "dict[str, torch.Tensor]":
    """The audio fields of a row, without padding; the sample's JSON names them."""
    names = _stated(batch["metadata"][row]).get("fields", _ONE_FIELD)
    return {name: batch[name][row, :, : int(batch["num_frames"][row])] for name in names}


def _crc_of(fields: "Mapping[str, torch.Tensor]") -> int:
    """CRC-32 of the values of a field; of several, the sum of theirs."""
    return sum(map(content_of, fields.values())) & _GREATEST_CRC32


def _audio(key: str, fields: "Mapping[str, torch.Tensor]", rate_hz: int, stated: Mapping[str, Any]) -> ArrivedSample:
    num_channels, num_frames = next(iter(fields.values())).shape
    found = {"num_frames": num_frames, "sample_rate": rate_hz, "num_channels": num_channels}
    wrong = [
        f"{name} is {value}, the sample's JSON says {stated[name]}"
        for name, value in found.items()
        if stated[name] != value
    ]
    wrong += [
        f"(channels, frames) of {name} is {tuple(fields[name].shape)}, expected {(facts['num_channels'], num_frames)}"
        for name, facts in stated.get("fields", {}).items()
        if tuple(fields[name].shape) != (facts["num_channels"], num_frames)
    ]
    peaks = [_peak(audio) for audio in fields.values()]
    return ArrivedSample(
        key,
        num_frames,
        width_of([len(audio) for audio in fields.values()]),
        rate_hz,
        all(map(math.isfinite, peaks)),
        _crc_of(fields),
        "; ".join(wrong),
        any(peak > 1 for peak in peaks),
        max(map(_full_scale, fields.values(), peaks)),
    )


def _peak(audio: "torch.Tensor") -> float:
    """The largest absolute value; NaN if any value is. By NumPy: torch takes a millisecond to wake its threads."""
    values = audio.numpy()
    return float(np.maximum(values.max(), -values.min())) if values.size else 0.0


def _full_scale(audio: "torch.Tensor", peak: float) -> float:
    """The share of the values at full scale, or beyond it."""
    return 0.0 if peak < _FULL_SCALE else float(np.mean(np.abs(audio.numpy()) >= _FULL_SCALE))


def _outputs_of(found: Mapping[str, Any], stated: Mapping[str, Any], row: int | None = None) -> "list[torch.Tensor]":
    """The outputs of a sample, or of a row of a batch: (T, D), (1, D) of a vector; the sample's JSON names them."""
    listed = stated.get("outputs", [])
    names = {one["name"]: f"{one['name']}_length" if one["kind"] != "vector" else "" for one in listed}
    names = names or {"encoder_hidden": "encoder_length"}
    return [_cut(found, values, length, row) for values, length in names.items()]


def _cut(found: Mapping[str, Any], values: str, length: str, row: int | None = None) -> "torch.Tensor":
    own: torch.Tensor = found[values] if row is None else found[values][row]
    if not length:
        return own[None]
    return own[: int(found[length] if row is None else found[length][row])]


def _content_of_all(outputs: "Sequence[torch.Tensor]") -> int:
    """CRC-32 of the values of an output; of several, the sum of theirs."""
    return sum(map(content_of, outputs)) & _GREATEST_CRC32


def _latents(key: str, outputs: "Sequence[torch.Tensor]", stated: Mapping[str, Any]) -> ArrivedSample:
    length, width = len(outputs[0]), width_of([values.shape[1] for values in outputs])
    wanted = stated["num_frames"] / stated["sample_rate"] * stated["frame_rate_hz"]
    off = max(_FRAMES_OFF, _SHARE_OFF * wanted, _seconds_off(stated) * stated["frame_rate_hz"])
    least = wanted - max(off, _SECONDS_SHORT * stated["frame_rate_hz"])
    is_near = not stated["frame_rate_hz"] or least <= length <= wanted + off
    wrong = "" if is_near else f"{length} latent frames, expected {wanted:.1f} from the length of its audio"
    is_finite = all(bool(values.isfinite().all()) for values in outputs if values.is_floating_point())
    return ArrivedSample(key, length, width, 0, is_finite, _content_of_all(outputs), wrong)


def _seconds_off(stated: Mapping[str, Any]) -> float:
    """Seconds that named outputs may be longer or shorter: encoders pad to whole frames of the slowest one."""
    hops = [one["hop"] / one["sample_rate_hz"] for one in stated.get("outputs", []) if one.get("hop")]
    return max(CONTEXT_SECONDS, *hops) if hops else 0.0


def _stated(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Headrace's own part of the sample's JSON."""
    found: Mapping[str, Any] = (metadata or {})["headrace"]
    return found
