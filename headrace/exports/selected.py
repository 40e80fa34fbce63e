"""Reads the selected samples of a snapshot as they are stored, in snapshot order, with joined columns and latents."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headrace.errors import FormatError, IntegrityError
from headrace.exports.exporter import ExportAudio, ExportSample
from headrace.format.beside.column_table import ColumnSpec
from headrace.format.manifests.manifests import parsed_name
from headrace.format.rejects import REFUSED
from headrace.format.sample_starts import sample_starts
from headrace.format.tensors.outputs import OUTPUTS
from headrace.format.typed_json import json_object
from headrace.locate.outputs import LATENTS
from headrace.streaming.dataset import StreamingDataset
from headrace.streaming.output_fields import OutputField
from headrace.streaming.samples.stored_sample import BatchRow, StoredSample
from headrace.streaming.samples.stream_reader import StreamReader
from headrace.streaming.world import World

_AT_ONCE = 64
_CACHE = "16gb"  # of shards of a store, which are read once


@dataclass(frozen=True, slots=True)
class Selection:
    """Part of an output that is exported.

    Attributes:
        snapshot: number of the audio snapshot; None for the newest that has all that is asked for.
        split: only this split; None for all.
        view: name of a view; None for all samples.
        columns: names of sets of columns to join to the metadata.
        latents: names of sets of latents to join.
    """

    snapshot: int | None = None
    split: str | None = None
    view: str | None = None
    columns: tuple[str, ...] = ()
    latents: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        """Whether whole shards are selected, with nothing joined."""
        return not (self.view or self.columns or self.latents)


class SelectedSamples:
    """The samples of a selection."""

    def __init__(self, uri: str, output: str, selection: Selection) -> None:
        """Open the selection; no shard is read yet.

        Args:
            uri: the folder of audio shards.
            output: the output that it belongs to.
            selection: what is selected.

        Raises:
            ConfigError, NotFoundError: something that was named does not exist, or does not fit the snapshot.
        """
        self._latents = selection.latents
        self._dataset = StreamingDataset(
            remote=uri,
            split=selection.split,
            snapshot=selection.snapshot,
            view=selection.view,
            columns=selection.columns,
            latents=[f"{output}/{LATENTS}/{name}" for name in selection.latents],
            cache_limit=_CACHE,
            world=World(0, 1),
        )
        self.size = self._dataset.size

    @property
    def _reader(self) -> StreamReader:
        (reader,) = self._dataset.reading.readers
        return reader

    @property
    def snapshot(self) -> int | None:
        """Number of the audio snapshot."""
        return self._reader.primary.shards.identity.snapshot

    @property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """The columns that are joined."""
        sets = self._reader.columns.sets if self._reader.columns is not None else ()
        return tuple(spec for one in sets for spec in one.joined)

    @property
    def outputs(self) -> dict[str, tuple[OutputField, ...]]:
        """Set of latents that is joined → its outputs."""
        return dict(zip(self._latents, self._reader.outputs[1:], strict=True))

    def rows(self) -> dict[str, NDArray[np.int64]]:
        """Name of each shard → the rows of its samples, ascending; one that a view repeats comes as often."""
        shards = self._reader.primary.shards.shards
        starts = sample_starts(shards.num_samples).tolist()
        return {
            shards.name(number): self._reader.find(np.arange(start, stop))[1]
            for number, (start, stop) in enumerate(pairwise(starts))
        }

    def __iter__(self) -> Iterator[ExportSample]:
        """The samples, in snapshot order; repetitions of a sample follow it."""
        last, copy = None, 0
        for row in self._rows():
            place = (row.primary.shard, row.primary.key)
            copy = copy + 1 if place == last else 0
            last = place
            yield self._sample(row, copy)

    def _rows(self) -> Iterator[BatchRow]:
        for start in range(0, self.size, _AT_ONCE):
            numbers = range(start, min(start + _AT_ONCE, self.size))
            yield from self._reader.rows(np.array(numbers), numbers, patient=True)

    def _sample(self, row: BatchRow, copy: int) -> ExportSample:
        stored = row.primary
        json_blob = _bytes(stored, stored.columns.json)
        metadata = {} if json_blob is None else _parsed(json_blob, stored)
        if row.columns is not None:
            metadata = row.columns.add_to(metadata)
        if len(self.outputs) == 1 and (one := row.joined[0]) is not None:
            metadata = _with_latent_facts(metadata, one)
        firsts = accumulate((len(fields) for fields in self.outputs.values()), initial=0)
        joined = {name: row.joined[first] for name, first in zip(self.outputs, firsts, strict=False)}
        latents = {name: None if one is None else _bytes(one, one.columns.latents) for name, one in joined.items()}
        return ExportSample(
            key=stored.key,
            copy=copy,
            split=parsed_name(stored.access.name(stored.shard).rpartition("/")[2])["split"],
            sample_rate_hz=stored.sample_rate_hz,
            audio=_audio(stored),
            metadata=metadata,
            latents={name: blob for name, blob in latents.items() if blob is not None},
        )


def _audio(stored: StoredSample) -> dict[str, ExportAudio]:
    found = {}
    for one in stored.audio():
        blob = _bytes(stored, one.column)
        assert blob is not None
        extension = stored.columns.names[one.column].rpartition(".")[2]
        found[one.name] = ExportAudio(extension, blob, one.num_frames, one.num_channels)
    return found


def _with_latent_facts(metadata: dict[str, Any], latents: StoredSample) -> dict[str, Any]:
    """The metadata with what loaders look for beside a `.pth`: its named outputs, or why there are no latents."""
    json_blob = _bytes(latents, latents.columns.json)
    facts = {} if json_blob is None else _parsed(json_blob, latents).get("headrace", {})
    known = {name: facts[name] for name in (OUTPUTS, REFUSED) if isinstance(facts, dict) and name in facts}
    return {**metadata, "headrace": {**metadata.get("headrace", {}), **known}} if known else metadata


def _parsed(blob: bytes, stored: StoredSample) -> dict[str, object]:
    try:
        return json_object(blob)
    except ValueError as error:
        raise FormatError(f"{stored.called}: its .json is not a JSON object ({error})") from error


def _bytes(stored: StoredSample, column: int | None) -> bytes | None:
    """The bytes of a field, compared with its checksum; None if the sample lacks it."""
    span = stored.span(column)
    if span is None or column is None:
        return None
    try:
        return bytes(stored.checked(column, stored.opened().read(*span)))
    except IntegrityError:
        if not stored.renew():
            raise
        return bytes(stored.checked(column, stored.opened().read(*span)))
