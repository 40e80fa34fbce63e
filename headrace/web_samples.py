"""Raw samples of a WebDataset as what users see: decoded, checked, transformed.

Owns `decode_sample`, and that whatever is wrong with one sample is said with its shard and key. It opens no shard.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from headrace.audio import decode
from headrace.errors import SampleError
from headrace.indexing import LATENT_FIELD, audio_field
from headrace.pth import unpickled
from headrace.streaming.batches.batch import Sample


@dataclass(frozen=True, slots=True)
class Decoder:
    """From the bytes of a sample's fields to what users see."""

    transform: Callable[[Sample], Sample] | None

    def __call__(self, raw: Mapping[str, Any]) -> Sample:
        """The decoded sample.

        Raises:
            SampleError: a field cannot be decoded; names shard, key and reason.
        """
        try:
            sample = decode_sample(raw)
        except Exception as error:  # decoders raise many kinds; a consumer needs one, with shard and key
            raise SampleError(f"{raw['__url__']}: sample {raw['__key__']!r}: {error}") from error
        return sample if self.transform is None else self.transform(sample)


def decode_sample(raw: Mapping[str, Any]) -> Sample:
    """What `webdataset_loader` makes of one sample; for pipelines of your own: `wds.WebDataset(…).map(decode_sample)`.

    Args:
        raw: `__key__`, and bytes by field name.

    Raises:
        AudioError: the audio cannot be decoded.
        ValueError: the JSON is none.
        FormatError: a `.pth` that is damaged, or more than tensors and plain values.
    """
    import torch

    sample: Sample = {"__key__": raw["__key__"]}
    fields = {name: blob for name, blob in raw.items() if not name.startswith("__")}
    if (name := audio_field(tuple(fields))) is not None:
        audio, sample["sample_rate"] = decode(fields.pop(name))
        sample["audio"] = torch.from_numpy(audio)
    if LATENT_FIELD in fields:
        stored = unpickled(fields.pop(LATENT_FIELD))
        sample |= stored if isinstance(stored, dict) else {LATENT_FIELD: stored}
    metadata = json.loads(fields.pop("json", b"{}"))
    sample["metadata"] = metadata if isinstance(metadata, dict) else {"json": metadata}
    return sample | fields
