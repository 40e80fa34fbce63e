"""Figures of an encoding that are shown to the user: speed, padding, memory, and the check of one sample."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Comparison:
    """The difference between two encodings of one sample.

    Attributes:
        key: key of the sample.
        difference: largest difference of a frame, as a share of the largest frame.
        allowed: largest difference that rounding explains.
        is_of_codes: whether `difference` is the share of different codes.
    """

    key: str
    difference: float
    allowed: float
    is_of_codes: bool = False

    @property
    def is_same(self) -> bool:
        """Whether rounding explains the difference."""
        return self.difference <= self.allowed

    def __str__(self) -> str:
        """The comparison in words, without the key."""
        if self.is_of_codes:
            return f"encoded alone, {self.difference:.2%} of the codes differ ({self.allowed:.0%} are allowed)"
        return f"encoded alone, a frame differs by {self.difference:.2g} of the largest ({self.allowed:.2g} is allowed)"


@dataclass(frozen=True, slots=True)
class EncodingStats:
    """Figures of one partition's encoding; all zero when nothing had to be encoded.

    Attributes:
        audio_seconds: length of the encoded audio; overlaps of windows count once.
        wall_seconds: time from the start of the first batch to the end of the last one.
        num_batches: number of batches.
        padding_share: share of padding in the PCM frames that the encoder computed.
        busy_share: share of the wall time in which the devices computed; for a GPU, its utilization.
        devices: the devices that were used.
        peak_memory_bytes: largest memory allocated on a GPU; 0 without a GPU.
        halvings: how often memory ran out and the batches were halved.
        num_kept: samples whose latents were reused, because their audio has not changed.
        num_texts: distinct texts that were encoded; 0 for audio.
        alone: the comparison of one sample encoded in a batch and alone; None if no batch had several rows.
    """

    audio_seconds: float = 0.0
    wall_seconds: float = 0.0
    num_batches: int = 0
    padding_share: float = 0.0
    busy_share: float = 0.0
    devices: tuple[str, ...] = ()
    peak_memory_bytes: int = 0
    halvings: int = 0
    num_kept: int = 0
    num_texts: int = 0
    alone: Comparison | None = None

    @property
    def times_real_time(self) -> float:
        """Seconds of audio encoded per second."""
        return self.audio_seconds / self.wall_seconds if self.wall_seconds else 0.0
