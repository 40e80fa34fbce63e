"""Compares the samples that a reader returns with the samples that the indexes list, and describes the first errors.

How the samples are read is in `headrace.smoke.run` and `headrace.smoke.streams`.
"""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from headrace.errors import HeadraceError
from headrace.smoke.arrivals import ArrivedSample
from headrace.smoke.expected import ExpectedSamples

MOST_SHOWN = 5
"""Number of errors of one kind that are described."""

MOST_AT_FULL_SCALE = 0.1
"""Largest share of the values of a sample that may be at full scale without a warning."""

Counts = np.ndarray[Any, np.dtype[np.int64]]


@dataclass(frozen=True, slots=True)
class SeenSamples:
    """Results of one reader for each expected sample, int64 (n,) each.

    Attributes:
        times: how often the sample arrived.
        wrong: number of errors found in the sample.
        content: CRC-32 of the sample's values; 0 before it arrives.
    """

    times: Counts
    wrong: Counts
    content: Counts

    @classmethod
    def none_of(cls, expected: ExpectedSamples) -> "SeenSamples":
        """The state before any sample has arrived."""
        return cls(*(np.zeros(len(expected), np.int64) for _ in range(3)))


@dataclass(frozen=True, slots=True)
class SampleComparer:
    """Compares samples from readers with the expected samples, and records the first errors of each kind.

    Attributes:
        expected: the expected samples.
        shards: names of the shards to which `expected.shard` refers.
        faults: name of the check → error messages; the lists are added to.
    """

    expected: ExpectedSamples
    shards: Sequence[str]
    faults: Mapping[str, list[str]]

    def read(
        self, reader: str, arrivals: Callable[[], Iterator[ArrivedSample]], seen: SeenSamples
    ) -> tuple[int, float, float]:
        """Read all samples. Returns the number of samples, the total seconds, and the seconds to the first sample."""
        began = time.perf_counter()
        num_samples, first_seconds = 0, 0.0
        try:
            for sample in arrivals():
                first_seconds = first_seconds or time.perf_counter() - began
                num_samples += 1
                self._compare(reader, sample, seen)
        except HeadraceError as error:  # its message names shard and key
            note(self.faults["every_key_once"], f"{reader}: reading failed: {error}")
        self._count(reader, seen)
        return num_samples, time.perf_counter() - began, first_seconds

    def compare_readers(self, plain: SeenSamples, streamed: SeenSamples) -> None:
        """Record samples whose values differ between the two readers."""
        both = (plain.times > 0) & (streamed.times > 0) & ~self.expected.is_drawn
        for at in np.flatnonzero(both & (plain.content != streamed.content)):
            note(
                self.faults["same_in_both_readers"],
                f"{self._place(int(at))}: the values of a sample have CRC-32 {streamed.content[at]:08x} when streamed, "
                f"and {plain.content[at]:08x} when read by the plain pipeline",
            )

    def _compare(self, reader: str, sample: ArrivedSample, seen: SeenSamples) -> None:
        expected, at = self.expected, self.expected.find(sample.key)
        if at is None:
            note(
                self.faults["every_key_once"],
                f"{reader}: {sample.key} arrived, but is not in the index of any shard that was read",
            )
            return
        seen.times[at] += 1
        seen.content[at] = sample.content
        found = (sample.num_frames, sample.width, sample.sample_rate_hz)
        wanted = (int(expected.num_frames[at]), int(expected.width[at]), int(expected.sample_rate_hz[at]))
        wrong = {
            "shapes_and_lengths": f"(frames, width, rate) is {found}, the index says {wanted}" * (found != wanted),
            "finite_values": _wrong_values(sample, is_flac=bool(expected.is_flac[at])),
            "matches_json": sample.contradiction,
        }
        for verdict, what in wrong.items():
            if what:
                seen.wrong[at] += 1
                note(self.faults[verdict], f"{reader}: {self._place(at)} {sample.key}: {what}")
        if sample.full_scale > MOST_AT_FULL_SCALE and seen.times[at] == 1:
            self._warn(at, sample)

    def _warn(self, at: int, sample: ArrivedSample) -> None:
        """Record a sample that is mostly at full scale, once for both readers."""
        warning = (
            f"{self._place(at)} {sample.key}: {sample.full_scale:.0%} of its values are at full scale: perhaps a "
            "recording of floats in another range than [-1, 1], such as that of 16-bit integers; divide it by its "
            "full scale, or remove it"
        )
        if warning not in self.faults["full_scale"]:
            note(self.faults["full_scale"], warning)

    def _count(self, reader: str, seen: SeenSamples) -> None:
        missing, twice = (np.flatnonzero(seen.times == 0), np.flatnonzero(seen.times > 1))
        if len(missing) or len(twice):
            at = int([*missing, *twice][0])
            note(
                self.faults["every_key_once"],
                f"{reader}: {len(missing)} samples did not arrive, {len(twice)} arrived more than once; the first of "
                f"them is in {self._place(at)}",
            )

    def _place(self, at: int) -> str:
        return self.shards[int(self.expected.shard[at])]


def _wrong_values(sample: ArrivedSample, *, is_flac: bool) -> str:
    """Describe the fault in a sample's values; empty for a sound sample."""
    if not sample.is_finite:
        return "values are not finite"
    return "audio that is stored as FLAC is outside [-1, 1]" if sample.exceeds and is_flac else ""


def note(faults: list[str], fault: str) -> None:
    """Add an error message, unless there are `MOST_SHOWN` already."""
    if len(faults) < MOST_SHOWN:
        faults.append(fault)
