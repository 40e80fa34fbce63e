"""What encoding came to: the figures that a person wants to see beside the latents."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EncodingStats:
    """Figures of one partition's encoding; all zero when nothing had to be encoded.

    Attributes:
        audio_seconds: audio encoded, windows' overlaps not counted twice.
        wall_seconds: from the first batch asked for to the last one done.
        num_batches: batches run.
        padding_share: share of the PCM frames given to the encoder that were padding.
        busy_share: share of the wall time during which the devices computed; GPU utilization where there is a GPU.
        devices: where it ran.
        peak_memory_bytes: largest memory allocated on a GPU; 0 without one.
        halvings: how many times memory ran out and the batches were halved.
        num_kept: samples whose latents were taken over from before, since their audio is the same.
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

    @property
    def times_real_time(self) -> float:
        """Seconds of audio encoded per second."""
        return self.audio_seconds / self.wall_seconds if self.wall_seconds else 0.0
