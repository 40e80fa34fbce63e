"""The check `joined_by_key`: reads audio together with its latents, as a training job does, and compares the values.

The values must be those that the audio and the latents have when they are read alone. The smoke test has recorded the
CRC-32 of these values before, so any pair of wrong samples is detected.
"""

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np

from headrace.errors import HeadraceError
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.tensors.outputs import Output
from headrace.smoke.arrivals import JoinedArrival, joined_batch
from headrace.smoke.comparing import SeenSamples, note
from headrace.smoke.expected import ExpectedSamples
from headrace.streaming.output_fields import output_fields

if TYPE_CHECKING:
    from headrace.streaming.loader import StreamingDataLoader


@dataclass(frozen=True, slots=True)
class PartRead:
    """One part, after it has been read alone.

    Attributes:
        uri: folder of the part.
        expected: the expected samples.
        streamed: the samples that `StreamingDataset` returned.
        outputs: the outputs of latents; empty for audio.
    """

    uri: str
    expected: ExpectedSamples
    streamed: SeenSamples
    outputs: tuple[Output, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinedReading:
    """Reads audio with all its latents, at one audio snapshot, in storage order.

    Attributes:
        audio: the audio.
        latents: name of the part → set of latents.
        snapshot: number of the audio snapshot.
        batch_size: batch size of the only rank.
        num_workers: worker processes; 0 if only spans of the order are read.
    """

    audio: PartRead
    latents: Mapping[str, PartRead]
    snapshot: int
    batch_size: int
    num_workers: int

    def faults(self, spans: Sequence[tuple[int, int]], found: list[str]) -> int:
        """Read spans of the order of samples and add errors to `found`. Returns the number of samples that arrived."""
        times = np.zeros(len(self.audio.expected), np.int64)
        try:
            for sample in self._arrivals(spans):
                at = self.audio.expected.find(sample.key)
                if at is None:
                    note(found, f"{sample.key} arrived, but is not in the index of any shard that was read")
                    continue
                times[at] += 1
                self._compare(sample, found)
        except HeadraceError as error:
            note(found, f"reading failed: {error}")
        if (times != 1).any():
            lost, twice = int((times == 0).sum()), int((times > 1).sum())
            note(found, f"{lost} audio samples did not arrive, {twice} arrived more than once")
        return int(times.sum())

    def _compare(self, sample: JoinedArrival, found: list[str]) -> None:
        parts = {"audio": self.audio, **self.latents}
        for number, ((name, part), content) in enumerate(zip(parts.items(), sample.contents, strict=True)):
            at = part.expected.find(sample.key)
            if part.expected.is_rejected(sample.key):
                if content and number not in sample.zeros:
                    note(found, f"{sample.key}: arrived with {name} that were rejected")
            elif at is None:
                note(found, f"{sample.key}: arrived with {name} that do not have this key")
            elif part.expected.is_drawn[at]:  # another of its vectors
                continue
            elif part.streamed.times[at] and part.streamed.content[at] != content:
                note(found, f"{sample.key}: its {name} differs from the {name} of this key when read alone")

    def _arrivals(self, spans: Sequence[tuple[int, int]]) -> Iterator[JoinedArrival]:
        with tempfile.TemporaryDirectory() as cache:
            yield from self._read(self._open(cache), spans)

    def _read(self, loader: "StreamingDataLoader", spans: Sequence[tuple[int, int]]) -> Iterator[JoinedArrival]:
        names = (uri.rpartition("/")[2] for uri in self._uris)
        folders = list(zip(names, (part.outputs for part in self.latents.values()), strict=True))
        sets = [{field.values: field.length for field in fields} for fields in output_fields(folders)]
        origin = loader.state_dict()
        for start, stop in spans:
            loader.load_state_dict(origin | {"sample_in_epoch": start})
            left = stop - start
            batches = iter(loader)
            while left > 0 and (batch := next(batches, None)) is not None:
                rows = list(joined_batch(batch, sets))[:left]
                left -= len(rows)
                yield from rows
            batches.close()  # type: ignore[attr-defined]  # a generator

    @property
    def _uris(self) -> list[str]:
        return [part.uri.rstrip("/") for part in self.latents.values()]

    def _open(self, cache: str) -> "StreamingDataLoader":
        from headrace.streaming.dataset import StreamingDataset  # noqa: PLC0415 - imports torch
        from headrace.streaming.loader import StreamingDataLoader  # noqa: PLC0415
        from headrace.streaming.world import World  # noqa: PLC0415

        dataset = StreamingDataset(
            remote=self.audio.uri,
            local=cache,
            latents=self._uris,
            snapshot=self.snapshot,
            batch_size=self.batch_size,
            world=World(0, 1),
            on_missing_latents="zeros",
        )
        return StreamingDataLoader(dataset, num_workers=self.num_workers)


def spans_of(table: ShardTable, chosen: ShardTable) -> list[tuple[int, int]]:
    """Half-open spans of the chosen shards' samples in the order of the whole table, adjacent ones merged. Pure."""
    stops = np.cumsum(table.num_samples)
    wanted = set(chosen.names())
    spans = []
    for is_wanted, rows in groupby(range(len(table)), key=lambda row: table.name(row) in wanted):
        if is_wanted:
            first, *others = rows
            spans.append((int(stops[first] - table.num_samples[first]), int(stops[others[-1] if others else first])))
    return spans
