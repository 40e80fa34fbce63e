"""One sample encoded again: each output compared, and what cannot be compared named."""

from dataclasses import replace

import pytest

from headrace.encoding.plans import AUDIO_SHARD_NOTE, ENCODER_NOTE
from headrace.errors import BuildError, FormatError
from headrace.format.indexes.index_files import read_index
from headrace.verification.encoded_again import EncodedAgain
from tests.support.certified_latents import CertifiedLatents
from tests.support.onnx_models import WHOLE

OUTPUTS = {
    "level": {"kind": "vector", "dim": 1},
    "loud": {"kind": "codes", "hop": 160, "tensor": "codes"},
    "peaks": {"kind": "frames", "hop": 160, "dim": 1},
}
ONNX = {"kind": "onnx", "file": str(WHOLE), "sample_rate_hz": 16_000, "outputs": OUTPUTS}


def again(data):
    shards = data.built.manifest.manifest.shards
    return EncodedAgain(data.audio, data.storage, data.encoders()[0]), [
        read_index(data.storage, shard.name) for shard in shards
    ]


def test_every_output_is_compared(tmp_path):
    data = CertifiedLatents(tmp_path, ONNX)
    encoded, indexes = again(data)
    found = encoded.compared(indexes[2], 1)
    assert {name: one.is_of_codes for name, one in found.items()} == {"level": False, "loud": True, "peaks": False}
    assert all(one.is_same and one.key == "s2k1" for one in found.values())
    num_frames = found["peaks"].num_values
    assert [found[name].num_values for name in ("level", "loud", "peaks")] == [1, num_frames, num_frames]
    assert num_frames > 10


def test_of_a_vector_of_several_windows_nothing_is_compared(tmp_path):
    data = CertifiedLatents(tmp_path, {**ONNX, "window_seconds": 2.1}, lengths={"s0k0": 60_000})
    encoded, indexes = again(data)
    found = encoded.compared(indexes[0], 0)
    assert (found["level"].num_values, found["level"].difference) == (0, 0.0)
    assert 0 < found["peaks"].num_values < 60_000 / 160
    assert all(one.is_same for one in found.values())


def test_another_encoder_and_audio_that_lacks_the_sample_are_named(tmp_path):
    data = CertifiedLatents(tmp_path)
    encoded, indexes = again(data)
    other = indexes[1].note(AUDIO_SHARD_NOTE)
    strange = replace(indexes[0], notes={**indexes[0].notes, AUDIO_SHARD_NOTE: other})
    with pytest.raises(FormatError, match=f"audio shard {other} does not contain this sample"):
        encoded.compared(strange, 0)
    strange = replace(indexes[0], notes={**indexes[0].notes, ENCODER_NOTE: "f" * 64})
    with pytest.raises(BuildError, match="the shard was encoded by encoder ffffffffffff, the current encoder is"):
        encoded.compared(strange, 0)
