"""Forty recordings in four forms (speech, stems, birds, songs), and the twelve layouts that are made of them."""

import io
from dataclasses import replace

import numpy as np
import soundfile

from tests.support import layouts
from tests.support.layouts import Recordings, write_changed

FORMS = (("speech", 16_000), ("stem", 44_100), ("bird", 32_000), ("song", 22_050))
"""Name and sample rate of each form; recordings take turns."""
CHANGED = 13
"""The recording that `changed` has with another sound."""

TEXT_COLUMNS = {
    layouts.kaldi: "text",
    layouts.nemo: "text",
    layouts.lhotse: "text",
    layouts.audiofolder: "text",
    layouts.ljspeech: "text",
    layouts.librispeech: "text",
    layouts.voxceleb: None,
    layouts.raven: "Species",
    layouts.sidecars: "txt",
    layouts.wenet: "txt",
    layouts.webdataset: "text",
    layouts.parquet: "sentence",
}
"""Writer of each of the twelve → the column with the text, which labels of folders do not have."""


def num_frames(number):
    return rate_hz(number) // 2 + 10 * number


def rate_hz(number):
    return FORMS[number % 4][1]


def text(number):
    return f"{FORMS[number % 4][0]} of recording {number}"


def samples(number, seed=0):
    """The sound, int16 (frames,): a tone with noise."""
    noise = np.random.default_rng([seed, number]).normal(0, 300, num_frames(number))
    tone = np.sin(2 * np.pi * (200 + 20 * number) * np.arange(num_frames(number)) / rate_hz(number))
    return (8000 * tone + noise).astype(np.int16)


def sound(folder, number, *, extension="wav", seed=0):
    file = io.BytesIO()
    soundfile.write(file, samples(number, seed), rate_hz(number), format=extension.upper(), subtype="PCM_16")
    path = folder / f"utt-{number}.{extension}"
    write_changed(path, file.getvalue())
    return path


FORTY = Recordings(range(40), sound, text, num_frames, rate_hz)


def changed():
    """The forty recordings, one of which has another sound."""
    return replace(FORTY, sound=lambda *args, **form: sound(*args, **form, seed=int(args[1] == CHANGED)))
