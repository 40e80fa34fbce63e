"""MP3 files taken apart: their Info header, their frames, and what of them is delay and padding."""

from dataclasses import dataclass

from tests.support.sounds import file_of, music


@dataclass(frozen=True)
class Mp3:
    """An MP3 of libsndfile's (LAME): one Info frame, then frames of audio."""

    data: bytes
    first_frame: int
    mark_at: int

    @property
    def frames(self):
        """All but the Info frame."""
        return self.data[self.first_frame :]

    @property
    def num_frames(self):
        """Number of frames that the Info header promises."""
        return int.from_bytes(self.data[self.mark_at + 8 : self.mark_at + 12], "big")

    @property
    def delay_and_padding(self):
        at = self.data.index(b"LAME") + 21
        packed = int.from_bytes(self.data[at : at + 3], "big")
        return packed >> 12, packed & 0xFFF

    def promising(self, num_frames):
        """File with another count in its header."""
        at = self.mark_at + 8
        return self.data[:at] + num_frames.to_bytes(4, "big") + self.data[at + 4 :]


def mp3_of(num_frames, num_channels=1, rate_hz=44_100, seed=0):
    data = file_of(music(num_frames, num_channels, rate_hz, seed), "MP3", "MPEG_LAYER_III", rate_hz)
    mark_at = max(data.find(b"Xing"), data.find(b"Info"))
    return Mp3(data, data.index(data[:2], 4), mark_at)
