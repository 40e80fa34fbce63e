"""Prints how long the FLAC decoder of this environment takes for a minute of stereo, in CPU milliseconds.

`tools/compile-decoder` runs it with each decoder first on the path. A process measures one decoder, since a compiled
module cannot be exchanged.
"""

import io
import sys
import time

import numpy as np
import soundfile as sf

from headrace.audio.dr_flac import open_memory

RATE_HZ, SECONDS, TIMES = 44_100, 60, 9


def stream() -> bytes:
    """A minute of two tones with noise, as FLAC of 16 bits."""
    phase = np.arange(SECONDS * RATE_HZ) / RATE_HZ * 2 * np.pi
    tones = np.stack([np.sin(220 * phase), np.sin(331 * phase)], axis=1)
    noise = np.random.default_rng(0).normal(0, 0.02, tones.shape)
    file = io.BytesIO()
    sf.write(file, 0.4 * tones + noise, RATE_HZ, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def milliseconds(data: bytes) -> float:
    """CPU time of one pass."""
    out = np.empty(2 * SECONDS * RATE_HZ, np.float32)
    began = time.process_time()
    decoder = open_memory(data)
    if decoder is None:
        raise RuntimeError("the decoder finds no frame in a stream of libsndfile")
    with decoder:
        num_frames = decoder.read(SECONDS * RATE_HZ, out)
    if num_frames != SECONDS * RATE_HZ:
        raise RuntimeError(f"the decoder gave {num_frames} frames of {SECONDS * RATE_HZ}")
    return 1000 * (time.process_time() - began)


if __name__ == "__main__":
    flac = stream()
    sys.stdout.write(f"{min(milliseconds(flac) for _ in range(TIMES)):.1f}\n")
