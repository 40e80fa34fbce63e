"""Prints what a package reads from an export: for each sample the digest of its PCM, and its text."""

import hashlib
import io
import json
import sys
from importlib.metadata import version

import numpy as np


def pcm_of(audio):
    """The digest of audio (N,) or (1, N), int16 or float in -1 to 1."""
    audio = np.asarray(audio).reshape(-1)
    if audio.dtype != np.int16:
        audio = np.round(audio * 32768).astype(np.int16)
    return hashlib.sha256(audio.tobytes()).hexdigest()


def decoded(blob):
    """The samples (N,) of a FLAC file."""
    import soundfile

    return soundfile.read(io.BytesIO(blob), dtype="int16")[0]


def show(package, samples):
    """Print the package's version, and key, audio and text of each sample; text is None where a form has none."""
    found = {key: [pcm_of(audio), text] for key, audio, text in samples}
    sys.stdout.write(json.dumps({"package": package, "version": version(package), "samples": found}) + "\n")
