"""`AudioCounts`: how the audio of samples came into the shards that a build wrote."""

from collections.abc import Mapping
from dataclasses import dataclass

from headrace.audio import AudioOrigin

_COUNTS = {
    AudioOrigin.ENCODER: "num_encoded",
    AudioOrigin.RECORDING: "num_as_recorded",
    AudioOrigin.SHARD: "num_taken_over",
}


@dataclass(frozen=True, slots=True)
class AudioCounts:
    """Counts of the samples in the shards that a build wrote, by the origin of their audio.

    Attributes:
        num_encoded: samples that were decoded and encoded. With `codec: copy`, these are no whole recordings in the
            wanted form.
        num_as_recorded: samples with the bytes of their recording, which was decoded to check it.
        num_taken_over: samples whose audio was copied from existing shards, without a look at their recordings.
    """

    num_encoded: int = 0
    num_as_recorded: int = 0
    num_taken_over: int = 0

    def named(self) -> dict[str, int]:
        """The counts as metadata of an asset; `of_metadata` reads them."""
        return {f"samples_{name.removeprefix('num_')}": getattr(self, name) for name in _COUNTS.values()}

    @classmethod
    def of_metadata(cls, metadata: Mapping[str, object]) -> "AudioCounts":
        """The counts from an asset's metadata; 0 where they are missing."""
        found = {name: metadata.get(f"samples_{name.removeprefix('num_')}", 0) for name in _COUNTS.values()}
        return cls(**{name: count if isinstance(count, int) else 0 for name, count in found.items()})

    def __add__(self, other: "AudioCounts") -> "AudioCounts":
        """The sums."""
        return AudioCounts(*(getattr(self, name) + getattr(other, name) for name in _COUNTS.values()))

    def __str__(self) -> str:
        """Counts that are not 0, in words; empty if all are 0."""
        words = {origin.value: getattr(self, name) for origin, name in _COUNTS.items()}
        return ", ".join(f"{count} {word}" for word, count in words.items() if count)

    @classmethod
    def of_origins(cls, origins: Mapping[AudioOrigin, int]) -> "AudioCounts":
        """The counts, given the number of samples of each origin."""
        return cls(**{name: origins.get(origin, 0) for origin, name in _COUNTS.items()})


NO_AUDIO = AudioCounts()
"""No sample was written."""
