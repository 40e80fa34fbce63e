"""Raw samples of a WebDataset as what users see: decoded, checked, transformed.

Owns `decode_sample`, and that whatever is wrong with one sample is said with its shard and key. It opens no shard.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.audio import decode
from headrace.errors import ConfigError, HeadraceError, SampleError
from headrace.indexing import LATENT_FIELD, audio_field
from headrace.pth import stored_latents, unpickled
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.bounds import check_length
from headrace.streaming.batches.decode import metadata_of
from headrace.streaming.batches.fields import OF_LATENTS, is_taken

_OF_PTH = ("audio", "sample_rate", *OF_LATENTS)  # fields of ours that a `.pth` may well hold


@dataclass(frozen=True, slots=True)
class Decoder:
    """From the bytes of a sample's fields to what users see."""

    transform: Callable[[Sample], Sample] | None

    def __call__(self, raw: Mapping[str, Any]) -> Sample:
        """The decoded sample.

        Raises:
            SampleError: a field cannot be decoded, or the transform fails or gives None; names shard, key and reason.
        """
        try:
            return self._transformed(decode_sample(raw))
        except Exception as error:  # decoders raise many kinds; a consumer needs one, with shard and key
            raise SampleError(f"{raw['__url__']}: sample {raw['__key__']!r}: {_reason(error)}") from error

    def _transformed(self, sample: Sample) -> Sample:
        changed = sample if self.transform is None else self.transform(sample)
        if changed is None:  # which webdataset would drop without a word
            raise SampleError("the transform gave None: let it return the sample")
        return changed


def _reason(error: Exception) -> str:
    """What is wrong, in words: those of others say little without their kind."""
    return f"{error}" if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"


def decode_sample(raw: Mapping[str, Any]) -> Sample:
    """What `webdataset_loader` makes of one sample; for pipelines of your own: `wds.WebDataset(…).map(decode_sample)`.

    Args:
        raw: `__key__`, and bytes by field name.

    Raises:
        AudioError: the audio cannot be decoded.
        FormatError: a `.json` that is none, or a `.pth` that is damaged, holds more than tensors and plain values, or
            latents without a length that fits them.
        ConfigError: a file or an entry of the `.pth` has the name of a field that means something else.
    """
    import torch

    sample: Sample = {"__key__": raw["__key__"]}
    fields = {name: blob for name, blob in raw.items() if not name.startswith("__")}
    if (name := audio_field(tuple(fields))) is not None:
        audio, sample["sample_rate"] = decode(fields.pop(name))
        sample["audio"] = torch.from_numpy(audio)
    if LATENT_FIELD in fields:
        sample |= _stored(fields.pop(LATENT_FIELD), sample)
    sample["metadata"] = metadata_of(fields.pop("json", b"{}"))
    if (taken := next((name for name in fields if name in sample or is_taken(name)), None)) is not None:
        raise ConfigError(
            f"its file .{taken} clashes with the field {taken!r} of samples and batches: give it another extension in "
            "the shard, or rename it before `decode_sample` in a pipeline of your own"
        )
    return sample | fields


def _stored(blob: bytes, sample: Sample) -> dict[str, Any]:
    """The fields that a `.pth` adds to a sample: the entries of a dict, or what else it holds, as one."""
    stored = unpickled(blob)
    if not isinstance(stored, dict) or not all(isinstance(name, str) for name in stored):
        return {LATENT_FIELD: stored}
    for name in stored:
        if name in sample or (is_taken(name) and not name.startswith(_OF_PTH)):
            raise ConfigError(
                f"its .pth has an entry {name!r}, which clashes with a field of samples and batches: write it again "
                "under another name"
            )
    return stored | _latents(stored, blob) if "encoder_hidden" in stored else stored


def _latents(stored: Mapping[str, Any], blob: bytes) -> dict[str, Any]:
    import torch

    hidden, length = stored["encoder_hidden"], stored.get("encoder_length")
    if not isinstance(hidden, torch.Tensor) or hidden.ndim != 2 or not isinstance(length, int):
        hidden, length = stored_latents(blob)  # which says what is wrong, or knows the number
    check_length(length, len(hidden))
    return {"encoder_hidden": hidden, "encoder_length": length}
