"""Samples as they arrive from a loader, reduced to what a smoke test compares. Pure: arrays in, facts out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

_FRAMES_OFF = 2
_SHARE_OFF = 0.01


@dataclass(frozen=True, slots=True)
class Arrived:
    """One sample as the loader gave it.

    Attributes:
        key: its key.
        num_frames: PCM or latent frames.
        width: channels, or D of latents.
        sample_rate_hz: 0 for latents.
        is_sound: whether every value is finite, and in [-1, 1] for audio.
        contradiction: where it and its JSON differ; empty when they agree.
    """

    key: str
    num_frames: int
    width: int
    sample_rate_hz: int
    is_sound: bool
    contradiction: str = ""


def arrived_sample(sample: Mapping[str, Any]) -> Arrived:
    """Of one sample's dict."""
    key, stated = sample["__key__"], _stated(sample.get("metadata"))
    if "audio" in sample:
        return _audio(key, sample["audio"], int(sample["sample_rate"]), stated)
    return _latents(key, sample["encoder_hidden"][: int(sample["encoder_length"])], stated)


def arrived_batch(batch: Mapping[str, Any]) -> Iterator[Arrived]:
    """Of a batch's rows; rows of padding are left out."""
    keys: Sequence[str] = batch["keys"]
    padding = batch["is_padding"].tolist() if "is_padding" in batch else [False] * len(keys)
    for row, key in enumerate(keys):
        if padding[row]:
            continue
        stated = _stated(batch["metadata"][row])
        if "audio" in batch:
            audio = batch["audio"][row, :, : int(batch["num_frames"][row])]
            yield _audio(key, audio, int(batch["sample_rate"][row]), stated)
        else:
            yield _latents(key, batch["encoder_hidden"][row, : int(batch["encoder_length"][row])], stated)


def is_sound(values: "torch.Tensor", limit: float | None = None) -> bool:
    """Whether all values are finite and no larger than `limit`. NaN fails every comparison."""
    if limit is not None:
        return bool((values.abs() <= limit).all())
    return bool(values.isfinite().all())


def _audio(key: str, audio: "torch.Tensor", rate_hz: int, stated: Mapping[str, Any]) -> Arrived:
    num_channels, num_frames = audio.shape
    found = {"num_frames": num_frames, "sample_rate": rate_hz, "num_channels": num_channels}
    wrong = [f"{name} {value}, its JSON says {stated[name]}" for name, value in found.items() if stated[name] != value]
    return Arrived(key, num_frames, num_channels, rate_hz, is_sound(audio, limit=1.0), "; ".join(wrong))


def _latents(key: str, hidden: "torch.Tensor", stated: Mapping[str, Any]) -> Arrived:
    length, width = hidden.shape
    wanted = stated["num_frames"] / stated["sample_rate"] * stated["frame_rate_hz"]
    is_near = abs(length - wanted) <= max(_FRAMES_OFF, _SHARE_OFF * wanted)
    wrong = "" if is_near else f"{length} latent frames, its audio's length makes {wanted:.1f}"
    return Arrived(key, length, width, 0, is_sound(hidden), wrong)


def _stated(metadata: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """What the JSON says of the sample itself."""
    found: Mapping[str, Any] = (metadata or {})["headrace"]
    return found
