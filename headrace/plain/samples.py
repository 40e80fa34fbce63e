"""Decodes the raw samples of a WebDataset, checks them and applies the user's transform.

An error in a sample is reported with its shard and key. No shard is opened here.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.audio import decode
from headrace.errors import AudioError, ConfigError, HeadraceError, SampleError
from headrace.format.indexes.audio_fields import AudioFacts, common_facts, of_field, stated_audio_fields
from headrace.format.rejects import latents_rejection
from headrace.format.tars.member_names import LATENT_FIELD, audio_field, members_of
from headrace.format.tensors.pth import latents_of
from headrace.format.tensors.unpickling import unpickled
from headrace.streaming.batches.batch import Sample
from headrace.streaming.batches.json_texts import metadata_of
from headrace.streaming.batches.stacking import padding_like
from headrace.streaming.output_fields import OUTPUT_FIELDS, OutputField, stated_fields
from headrace.streaming.samples.fields import AUDIO_NAMES, OF_LATENTS, is_taken
from headrace.streaming.settings import OnMissingLatents

_PADDING = {"__key__": "", "metadata": {}, "is_padding": True}
_OF_PTH = ("audio", "sample_rate", *OF_LATENTS)  # fields of Headrace that a `.pth` may hold


@dataclass(frozen=True, slots=True)
class SampleDecoder:
    """Makes decoded samples of raw ones, for `webdataset_loader`."""

    transform: Callable[[Sample], Sample] | None
    on_missing_latents: OnMissingLatents = OnMissingLatents.RAISE

    def __call__(self, raw: Mapping[str, Any]) -> Sample:
        """The decoded sample, or padding in place of a sample without latents that is to be skipped.

        Raises:
            SampleError: a field cannot be decoded, the transform fails or returns None, or the sample's latents were
                rejected; the message gives shard, key and reason.
        """
        try:
            sample = decode_sample(raw)
            if LATENT_FIELD not in raw and (code := latents_rejection(sample["metadata"])) is not None:
                return self._without_latents(code)
            return self._transformed(sample)
        except Exception as error:  # decoders raise many kinds; users get one, with shard and key
            raise SampleError(f"{raw['__url__']}: sample {raw['__key__']!r}: {_reason(error)}") from error

    def _without_latents(self, code: str) -> Sample:
        if self.on_missing_latents is OnMissingLatents.SKIP:
            return dict(_PADDING)
        raise SampleError(
            f'its latents were rejected when they were made ({code}); pass on_missing_latents="skip" for a row of '
            'padding in its place; headrace.StreamingDataset also takes "zeros", for latents of length 0'
        )

    def _transformed(self, sample: Sample) -> Sample:
        listed = {name: sample[name] for name in (AUDIO_NAMES, OUTPUT_FIELDS) if name in sample}
        changed = sample if self.transform is None else self.transform(sample)
        if changed is None:  # webdataset would drop the sample silently
            raise SampleError("the transform gave None: let it return the sample")
        return listed | changed if listed and isinstance(changed, dict) else changed  # a new dict need not list them


def with_shapes_of_padding(source: Iterator[Any]) -> Iterator[Any]:
    """Give padding the fields and shapes of the last sample before it, and no key; other samples pass unchanged.

    So a batch of padding only has the fields of other batches, unless no sample came before it. (webdataset gives every
    mapped sample the key of its input.)
    """
    shown: Any = None
    for sample in source:
        if not isinstance(sample, dict):
            yield sample
        elif sample.keys() != _PADDING.keys():
            shown = sample
            yield sample
        else:
            yield dict(_PADDING) if shown is None else padding_like(shown)


def _reason(error: Exception) -> str:
    """The error as text; errors of other libraries with their class, without which their messages say little."""
    return f"{error}" if isinstance(error, HeadraceError) else f"{type(error).__name__}: {error}"


def decode_sample(raw: Mapping[str, Any]) -> Sample:
    """Decode one sample as `webdataset_loader` does; for your own pipelines: `wds.WebDataset(…).map(decode_sample)`.

    Args:
        raw: `__key__`, and bytes by field name; `__audio__`, the names of audio fields, is needed only for shards that
            Headrace did not build.

    Raises:
        AudioError: the audio cannot be decoded, or its fields differ in rate or length.
        SampleError: an audio field is missing.
        FormatError: the `.json` is not valid, or the `.pth` is damaged, holds more than tensors and plain values, or
            holds latents whose length does not fit.
        ConfigError: a file or an entry of the `.pth` has the name of a field of samples or batches.
    """
    import torch

    sample: Sample = {"__key__": raw["__key__"]}
    fields = {name: blob for name, blob in raw.items() if not name.startswith("__")}
    sample["metadata"] = metadata_of(fields.pop("json", b"{}"))
    if names := raw.get(AUDIO_NAMES) or stated_audio_fields(sample["metadata"], fields):
        sample |= _audio_fields(fields, names)
    elif (name := audio_field(tuple(fields))) is not None:
        audio, sample["sample_rate"] = decode(fields.pop(name))
        sample["audio"] = torch.from_numpy(audio)
    if LATENT_FIELD in fields:
        sample |= _stored(fields.pop(LATENT_FIELD), sample)
        if named := stated_fields(sample["metadata"], sample):
            sample[OUTPUT_FIELDS] = named
            sample |= _first_choices(sample, named.values())
    if (taken := next((name for name in fields if name in sample or is_taken(name)), None)) is not None:
        raise ConfigError(
            f"its file .{taken} clashes with the field {taken!r} of samples and batches: give it another extension in "
            "the shard, or rename it before `decode_sample` in a pipeline of your own"
        )
    return sample | fields


def _first_choices(sample: Sample, fields: Iterable[OutputField]) -> Sample:
    """The first vector of each output of which a sample may have several: no position is known here to draw by."""
    found: Sample = {}
    for field in fields:
        if field.is_choice:
            found |= {
                field.values: sample[field.values].reshape(-1, sample[field.values].shape[-1])[0],
                field.offset: 0,
            }
    return found


def _audio_fields(fields: dict[str, Any], names: Sequence[str]) -> Sample:
    """The named audio fields of a sample, taken out of `fields`; all end with the shortest.

    Raises:
        SampleError: a field is missing.
        AudioError: a field cannot be decoded, or the fields differ in rate or length.
    """
    import torch

    decoded = {}
    for name in names:
        if not (members := members_of(name, fields)):
            found = ", ".join(fields) or "no other file"
            raise SampleError(f"it has no audio field {name!r} (.{name}.flac), only {found}; write the sample again")
        try:
            decoded[name] = decode(fields.pop(members[0]))
        except AudioError as error:
            raise of_field(name, error) from error
    facts = {name: AudioFacts(audio.shape[1], rate, len(audio)) for name, (audio, rate) in decoded.items()}
    common = common_facts(facts)
    made: Sample = {
        name: torch.from_numpy(np.ascontiguousarray(audio[:, : common.num_frames]))
        for name, (audio, _) in decoded.items()
    }
    return made | {"sample_rate": common.sample_rate_hz, AUDIO_NAMES: tuple(names)}


def _stored(blob: bytes, sample: Sample) -> dict[str, Any]:
    """The fields that a `.pth` adds to a sample: the entries of its dict, or its whole content as field `pth`."""
    stored = unpickled(blob)
    if not isinstance(stored, dict) or not all(isinstance(name, str) for name in stored):
        return {LATENT_FIELD: stored}
    for name in stored:
        if name in sample or (is_taken(name) and not name.startswith(_OF_PTH)):
            raise ConfigError(
                f"its .pth has an entry {name!r}, which clashes with a field of samples and batches: write it again "
                "under another name"
            )
    if "encoder_hidden" not in stored:
        return stored
    hidden, length = latents_of(stored)
    return stored | {"encoder_hidden": hidden, "encoder_length": length}
