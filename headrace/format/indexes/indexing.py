"""Makes the index of a tar from the tar itself: a shard of any WebDataset, or a Headrace shard to be verified.

Beyond names and byte ranges, an index has facts from the content of each sample: the length, rate and channels of
audio, from its header, and the shape and place of the raw values of latents. No audio is decoded, except FLAC whose
header has no length. A field of an unknown kind is indexed by its byte range alone.
"""

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import BinaryIO, NamedTuple

from headrace.audio import flac_info, probe
from headrace.errors import AudioError, FormatError
from headrace.format.indexes.audio_fields import AudioFacts, common_facts, stated_audio_fields
from headrace.format.indexes.index import ABSENT, REFUSED_NOTE, ShardIndex
from headrace.format.indexes.index_entries import PlacedTensor, SampleEntry, build_index, group_members
from headrace.format.indexes.seeking import with_seek_points
from headrace.format.rejects import latents_rejection
from headrace.format.tars.member_names import (
    JSON_FIELD,
    KEY_AT_NOTE,
    LATENT_FIELD,
    KeyAt,
    Naming,
    audio_field,
    check_fields,
    members_of,
)
from headrace.format.tars.tar import crc32_of, payload, read_members
from headrace.format.tensors.outputs import OUTPUTS, Output, hidden_output, outputs_of
from headrace.format.tensors.pth import RawTensor, latent_facts, output_facts
from headrace.format.typed_json import json_value
from headrace.stores.ranged_files import RangeFile

_BY_WEBDATASET = Naming()
_HEAD_BYTES = 64  # FLAC: marker and STREAMINFO, which must come first
_CHUNKED = (b"RIFF", b"RF64", b"FORM")  # WAV and AIFF: what is not in the head is in chunks that are skipped


def index_tar(
    file: BinaryIO, name: str, *, sha256: str = "", naming: Naming = _BY_WEBDATASET, has_checksums: bool = True
) -> ShardIndex:
    """The index of a tar, from the tar alone.

    A sample whose audio or latents cannot be parsed gets an unknown length in the index; reading the sample raises the
    error.

    Args:
        file: the tar, seekable.
        name: its file name, for the index and for messages.
        sha256: its digest, if the caller has it.
        naming: how the names of members are read; a note of the index says where keys end. Without named audio fields,
            those count that the JSON of a shard of Headrace lists.
        has_checksums: whether to read every field for its CRC-32, and long audio for its seek points; otherwise only
            headers and latents are read.

    Raises:
        FormatError: not a tar, cut off, or not a WebDataset (files of one sample are not neighbours, or look like
            several samples), or no sample has one of the named audio fields.
    """
    entries = list(group_members(read_members(file, name), name, naming.key_at))
    naming = replace(naming, audio_fields=naming.audio_fields or _stated_audio_fields(file, entries))
    described, declared = [], naming.all_declared
    for entry in entries:
        check_fields(name, entry.key, entry.ranges, declared)
        checked = _with_checksums(file, entry) if has_checksums else entry
        described.append(_described(file, checked, naming.audio_fields))
    _check_audio_fields(name, naming.audio_fields, [entry for entry, _ in described])
    has_latents = any(LATENT_FIELD in entry.ranges for entry in entries)
    refused = [row for entry, _ in described if (row := _rejection(file, entry, has_latents=has_latents)) is not None]
    outputs = next((found.outputs for _, found in described if found is not None), ())
    entries = [
        replace(entry, tensors=found.tensors) if found is not None and found.outputs == outputs else entry
        for entry, found in described
    ]
    notes = {} if naming.key_at is KeyAt.FIRST_DOT else {KEY_AT_NOTE: naming.key_at.value}
    if refused:
        notes[REFUSED_NOTE] = json.dumps(refused)
    num_bytes = file.seek(0, io.SEEK_END)
    index = build_index(entries, shard=name, num_bytes=num_bytes, sha256=sha256, outputs=outputs, notes=notes)
    return with_seek_points(file, index) if has_checksums else index


def key_rule_of(index: ShardIndex) -> str:
    """The rule by which keys end in an index, from its notes: a `KeyAt`, or a rule of a later version."""
    return index.notes.get(KEY_AT_NOTE, KeyAt.FIRST_DOT.value)


def naming_of(key_at: KeyAt, index: ShardIndex | None) -> Naming:
    """Rules for reading names in a shard with this index: an index that a build wrote declares its fields."""
    if index is None:
        return Naming(key_at)
    return Naming(key_at, frozenset(index.fields if index.input_digest else ()), index.audio_fields)


def _with_checksums(file: BinaryIO, entry: SampleEntry) -> SampleEntry:
    return replace(entry, crc32={name: crc32_of(file, span) for name, span in entry.ranges.items()})


class _Outputs(NamedTuple):
    """The outputs that a sample has, and the raw tensor of each with its place in the tar."""

    outputs: tuple[Output, ...]
    tensors: tuple[PlacedTensor, ...]


def _described(file: BinaryIO, entry: SampleEntry, audio_fields: Sequence[str]) -> tuple[SampleEntry, _Outputs | None]:
    """The entry with facts from its audio or latents, and its raw tensors."""
    if members := _members(entry, audio_fields):
        return _with_audio_fields(file, entry, audio_fields, members), None
    name = None if audio_fields else audio_field(tuple(entry.ranges))
    if name is not None:
        return _with_audio(file, entry, name), None
    if LATENT_FIELD not in entry.ranges:
        return entry, None
    return _with_latents(file, entry)


def _with_latents(file: BinaryIO, entry: SampleEntry) -> tuple[SampleEntry, _Outputs | None]:
    start, stop = entry.ranges[LATENT_FIELD]
    blob = payload(file, (start, stop))
    if outputs := _named_outputs(file, entry):
        if (raw := output_facts(blob, outputs)) is None:
            return entry, None
        return replace(entry, num_frames=raw[0].place.num_frames), _Outputs(outputs, _placed(raw, start))
    if (facts := latent_facts(blob)) is None:
        return entry, None
    entry = replace(entry, num_frames=facts.encoder_length)
    if facts.tensor is None:
        return entry, None
    return entry, _Outputs((hidden_output(facts.tensor.dtype),), _placed([facts.tensor], start))


def _placed(raw: Sequence[RawTensor], start: int) -> tuple[PlacedTensor, ...]:
    """Raw tensors of a field that begins at a byte of the tar."""
    return tuple(PlacedTensor(tensor.place.after(start), tensor.crc32) for tensor in raw)


def _named_outputs(file: BinaryIO, entry: SampleEntry) -> tuple[Output, ...]:
    """The outputs that the JSON of a sample lists, as in shards of Headrace; empty if it lists none."""
    if JSON_FIELD not in entry.ranges:
        return ()
    try:
        content = json_value(payload(file, entry.ranges[JSON_FIELD]))
        facts = content.get("headrace") if isinstance(content, dict) else None
        listed = facts.get(OUTPUTS) if isinstance(facts, dict) else None
        return outputs_of(listed, entry.key) if listed else ()
    except (ValueError, FormatError):
        return ()


def _rejection(file: BinaryIO, entry: SampleEntry, *, has_latents: bool) -> dict[str, str] | None:
    """The entry of the note `refused` for a sample whose latents were rejected; None for every other sample.

    Beside audio, as in an export, latents are looked for only where other samples of the tar have them.
    """
    is_alone = set(entry.ranges) == {JSON_FIELD}
    if not is_alone and (not has_latents or LATENT_FIELD in entry.ranges or JSON_FIELD not in entry.ranges):
        return None
    try:
        content = json_value(payload(file, entry.ranges["json"]))
    except ValueError:
        return None
    if (code := latents_rejection(content)) is None:
        return None
    return {"key": entry.key, "path": str(content["headrace"].get("source", "")), "code": code, "reason": code}


def _stated_audio_fields(file: BinaryIO, entries: Sequence[SampleEntry]) -> tuple[str, ...]:
    """The named audio fields that the JSON of the first sample with such members lists; none for tars of others."""
    for entry in entries:
        if JSON_FIELD in entry.ranges and any("." in name and audio_field([name]) for name in entry.ranges):
            try:
                content = json_value(payload(file, entry.ranges[JSON_FIELD]))
            except ValueError:
                return ()
            return stated_audio_fields(content, entry.ranges) if isinstance(content, dict) else ()
    return ()


def _members(entry: SampleEntry, audio_fields: Sequence[str]) -> dict[str, str]:
    """Named audio field → the member that holds it, for the fields that the sample has."""
    found = {name: members_of(name, entry.ranges) for name in audio_fields}
    return {name: members[0] for name, members in found.items() if members}


def _check_audio_fields(shard: str, audio_fields: Sequence[str], entries: Sequence[SampleEntry]) -> None:
    """Raise `FormatError` for an audio field that no sample of a tar has."""
    missing = [name for name in audio_fields if not any(_members(entry, [name]) for entry in entries)]
    if missing and entries:
        found = ", ".join(sorted({name for entry in entries for name in entry.ranges}))
        raise FormatError(
            f"{shard}: no sample has the audio field {missing[0]!r}, a file like {entries[0].key}.{missing[0]}.flac; "
            f"the fields in the tar are {found}: correct the names of the audio fields, or the tar"
        )


def _with_audio_fields(
    file: BinaryIO, entry: SampleEntry, audio_fields: Sequence[str], members: Mapping[str, str]
) -> SampleEntry:
    """The entry with facts of named audio fields; its length is unknown if it lacks one, or if they do not fit."""
    unknown = AudioFacts(ABSENT, 0, 0)
    audio = {
        name: _audio_facts(file, entry.ranges[members[name]]) or unknown if name in members else unknown
        for name in audio_fields
    }
    try:
        common = common_facts(audio)
    except AudioError:
        return replace(entry, audio=audio)
    return replace(
        entry,
        num_frames=common.num_frames,
        sample_rate_hz=common.sample_rate_hz,
        num_channels=common.num_channels,
        audio=audio,
    )


def _with_audio(file: BinaryIO, entry: SampleEntry, name: str) -> SampleEntry:
    if (facts := _audio_facts(file, entry.ranges[name])) is None:
        return entry
    num_frames, rate, channels = facts
    return replace(entry, num_frames=num_frames, sample_rate_hz=rate, num_channels=channels)


def _audio_facts(file: BinaryIO, span: tuple[int, int]) -> AudioFacts | None:
    """Facts in the header of an audio file; None if it cannot be parsed."""
    start, stop = span
    try:
        head = payload(file, (start, min(stop, start + _HEAD_BYTES)))
        if head.startswith(b"fLaC") and (flac := flac_info(head)).num_frames:
            return AudioFacts(*flac[:3])
        is_skimmed = head.startswith(_CHUNKED)
        part = (
            io.BufferedReader(RangeFile(file, start, stop - start)) if is_skimmed else io.BytesIO(payload(file, span))
        )
        info = probe(part, num_bytes=stop - start)
    except AudioError:
        return None
    return AudioFacts(info.num_frames, info.sample_rate_hz, info.num_channels)
