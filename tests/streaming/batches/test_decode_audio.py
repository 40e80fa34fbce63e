"""Audio to arrays: every format, damaged data."""

import gc
import io

import numpy as np
import soundfile as sf

from headrace import StreamingDataLoader, StreamingDataset
from headrace.audio import decode_flac_into
from headrace.errors import AudioError
from tests.support.streaming.corpus import clips
from tests.support.tars import tar_of


def encoded(clip, kind, subtype):
    file = io.BytesIO()
    sf.write(file, clip.pcm(), 8000, format=kind, subtype=subtype)
    return file.getvalue()


def test_every_audio_field_is_read_whatever_its_format(tmp_path):
    clip = clips(1)[0]
    forms = {"a.wav": ("WAV", "PCM_16"), "b.flac": ("FLAC", "PCM_24"), "c.aiff": ("AIFF", "PCM_16")}
    (tmp_path / "x.tar").write_bytes(tar_of({name: encoded(clip, *form) for name, form in forms.items()}))
    for sample in StreamingDataset(remote=str(tmp_path)):
        assert np.array_equal(sample["audio"].numpy(), clip.audio())
        assert sample["metadata"] == {}
    batch = next(iter(StreamingDataLoader(StreamingDataset(remote=str(tmp_path), batch_size=3))))
    assert batch["keys"] == ["a", "b", "c"]


def test_an_error_of_the_decoder_survives_garbage_collection():
    """A traceback that kept the decoder's view of the bytes crashed the interpreter when it was collected."""
    clip = clips(1)[0]
    blob = bytearray(clip.flac())
    blob[len(blob) // 2] ^= 0xFF
    for _ in range(20):
        try:
            decode_flac_into(memoryview(bytes(blob))[0:], np.empty((1, clip.num_frames), np.float32))
        except AudioError as error:
            error.itself = error  # a cycle: only the collector frees it
        gc.collect(1)  # what is young
    gc.collect()
