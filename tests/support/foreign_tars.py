"""Tars that somebody else wrote: FLAC, JSON, text and class members, in a folder, without indexes."""

import io
import json
from functools import cache

import numpy as np
import soundfile as sf

from tests.support.tars import tar_of

RATE_HZ = 8000


@cache
def flac(number, num_frames):
    """FLAC of noise, which does not become smaller."""
    file = io.BytesIO()
    noise = np.random.default_rng(number).integers(-30_000, 30_000, num_frames).astype(np.int16)
    sf.write(file, noise, RATE_HZ, format="FLAC", subtype="PCM_16")
    return file.getvalue()


def members(number, *, num_frames=400, **more):
    """The members of one sample: its text, class and JSON follow from its number."""
    content = {"speaker": f"p{number % 3}", "snr": number / 2, "number": number, "tags": ["a"], **more}
    return {
        f"s{number:03d}.flac": flac(number, num_frames + number),
        f"s{number:03d}.json": json.dumps(content).encode(),
        f"s{number:03d}.txt": f"text {number}\n".encode(),
        f"s{number:03d}.cls": str(number % 2).encode(),
    }


def write_tars(folder, num_tars=3, per_tar=4, prefix="train-", first=0, **more):
    """Tars `train-000.tar` … of `per_tar` samples each."""
    folder.mkdir(parents=True, exist_ok=True)
    for tar in range(num_tars):
        numbers = range(first + tar * per_tar, first + (tar + 1) * per_tar)
        blob = tar_of({name: blob for number in numbers for name, blob in members(number, **more).items()})
        (folder / f"{prefix}{tar:03d}.tar").write_bytes(blob)
    return folder
