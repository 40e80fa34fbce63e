"""ONNX models at once and in chunks, with state; silero-vad and DNSMOS where their packages are."""

import importlib.util
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headrace import encoders
from headrace.encoders import weights
from headrace.errors import BuildError, ConfigError, IntegrityError
from tests.support.onnx_models import CHUNKED, WHOLE
from tests.support.tiny_codecs import noisy_tones

OUTPUTS = {
    "level": {"kind": "vector", "dim": 1},
    "loud": {"kind": "codes", "hop": 160, "tensor": "codes"},
    "peaks": {"kind": "frames", "hop": 160, "dim": 1},
}
AT_ONCE = {"file": str(WHOLE), "sample_rate_hz": 16_000, "outputs": OUTPUTS}
IN_CHUNKS = {
    "file": str(CHUNKED),
    "sample_rate_hz": 16_000,
    "outputs": {"level": {"kind": "frames", "hop": 160, "dim": 1}},
    "chunk": 160,
    "context": 40,
    "state": {"state": "next"},
    "constants": {"gain": 2.0},
}


def _batch(*lengths):
    rows = [noisy_tones(length, seed) for seed, length in enumerate(lengths)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)[:, None], torch.tensor(lengths), rows


def test_outputs_of_rows_are_those_of_each_alone():
    batch, lengths, rows = _batch(3000, 777, 16_000)
    encoder = encoders.load("onnx", AT_ONCE)
    found = encoder.encode(batch, lengths)
    for row, audio in enumerate(rows):
        count = -(-len(audio) // 160)
        padded = np.pad(np.abs(audio.numpy()), (0, -len(audio) % 160))
        peaks = padded.reshape(-1, 160).max(1)
        assert int(found["peaks"][1][row]) == count
        assert np.allclose(found["peaks"][0][row, :count, 0], peaks)
        assert not found["peaks"][0][row, count:].any()
        assert np.array_equal(found["loud"][0][row, :count, 0], peaks > 0.1)
        assert np.allclose(found["level"][row], padded.mean(), atol=1e-6)
    assert found["loud"][0].dtype == torch.int64


def test_input_of_one_length_is_padded_or_repeated():
    batch, lengths, rows = _batch(1000, 2400)
    for short in ("pad", "repeat"):
        one = {"level": {"kind": "vector", "dim": 1}}
        encoder = encoders.load("onnx", {**AT_ONCE, "outputs": one, "input_frames": 2400, "short": short})
        assert (encoder.info.window, encoder.info.padded_to) == (2400, 2400)
        (level, whole) = encoder.encode(batch, lengths)["level"]
        expected = np.resize(rows[0], 2400) if short == "repeat" else np.pad(rows[0], (0, 1400))
        assert np.allclose(level, np.abs(expected).mean(), atol=1e-6)
        assert np.allclose(whole, np.abs(rows[1].numpy()).mean(), atol=1e-6)


@pytest.mark.parametrize("longest", [4001, 40_000], ids=["nearly alike", "rows that end seconds before others"])
def test_state_goes_from_chunk_to_chunk_and_context_before_each(longest):
    batch, lengths, rows = _batch(1000, longest)
    found, counts = encoders.load("onnx", IN_CHUNKS).encode(batch, lengths)["level"]
    assert counts.tolist() == [7, -(-longest // 160)]
    for row, audio in enumerate(rows):
        padded, state = np.abs(np.pad(audio.numpy(), (40, 160))), 0.0
        for step in range(int(counts[row])):
            state = state / 2 + 2 * padded[step * 160 : step * 160 + 200].mean()
            assert np.isclose(found[row, step, 0], state, atol=1e-6)


def test_the_fingerprint_is_of_content_and_settings(tmp_path):
    same, other = tmp_path / "same.onnx", {**AT_ONCE, "short": "repeat"}
    same.write_bytes(WHOLE.read_bytes())
    own = encoders.fingerprint("onnx", AT_ONCE)
    assert (
        encoders.fingerprint("onnx", {**AT_ONCE, "file": str(same)})
        == own
        == encoders.load("onnx", AT_ONCE).fingerprint
    )
    assert len({own, encoders.fingerprint("onnx", other), encoders.fingerprint("onnx", IN_CHUNKS)}) == 3


WRONG = {
    "a provider": ({"provider": "cuda"}, "provider 'cuda' is not supported, because it never ran; use provider: cpu"),
    "a file": ({"file": "none.onnx"}, "file: no such file: none.onnx"),
    "a package": ({"file": "no_such_package:a.onnx"}, "package no_such_package is not installed"),
    "an output": ({"outputs": {"a": {"kind": "vector", "dim": 1}}}, "has no output 'a'; it has level, peaks, codes"),
    "an input": ({"input": "x"}, "has the inputs audio; found x: name 'audio' as input, state or constants"),
    "state alone": ({"state": {"a": "b"}}, "state, context and layout: sequence are of chunks; give chunk"),
    "a hop": ({"chunk": 80}, "with chunks, an output has frames whose hop is the chunk"),
    "a negative context": ({"chunk": 160, "context": -1}, "context: expected at least 0, found -1"),
    "no window": ({"window_seconds": 0}, "window_seconds: expected more than 0, found 0"),
    "a negative overlap": ({"overlap_seconds": -1}, "overlap_seconds: expected at least 0, found -1"),
    "a length": ({"input_frames": 4000, "window_seconds": 9.0}, "the model takes 4000 PCM frames at most"),
}


@pytest.mark.parametrize(("settings", "words"), WRONG.values(), ids=WRONG)
def test_wrong_settings_are_named(settings, words):
    with pytest.raises((ConfigError, ImportError), match=words):
        encoders.load("onnx", {**AT_ONCE, **settings})


def test_models_that_fail_are_named(tmp_path):
    (tmp_path / "a.onnx").write_bytes(b"hello")
    with pytest.raises(IntegrityError, match="onnxruntime cannot load this model"):
        encoders.load("onnx", {**AT_ONCE, "file": str(tmp_path / "a.onnx")})
    batch, lengths, _ = _batch(1000)
    with pytest.raises(BuildError, match=r"output 'level' has the shape \(1, 1\), expected \(7,\)"):
        encoders.load("onnx", {**AT_ONCE, "outputs": {"level": {"kind": "vector", "dim": 7}}}).encode(batch, lengths)
    with pytest.raises(BuildError, match=r"the model rejects input of \(1, 120\)"):
        encoders.load("onnx", {**IN_CHUNKS, "context": 0, "chunk": 120, "outputs": {
            "level": {"kind": "frames", "hop": 120, "dim": 1}}}).encode(batch, lengths)  # fmt: skip


SHAPES = {
    "frames": (4, (1, 10, 4), 10),
    "frames without rows": (4, (10, 4), 10),
    "one frame fewer, as of a network without padding": (4, (1, 9, 4), 9),
    "one frame more, as of centred frames": (4, (1, 11, 4), 10),
    "frames of one number": (1, (1, 1, 10), 10),
    "codebooks before time": (4, (1, 4, 10), r"output 'a' has the shape \(1, 4, 10\), expected \('T', 4\).*transpose"),
    "twice the frames": (4, (1, 20, 4), "output 'a' has 20 frames for 1600 PCM frames, expected about 10; correct its"),
    "half of the frames": (4, (1, 5, 4), "output 'a' has 5 frames for 1600 PCM frames, expected about 10; correct its"),
    "several numbers for one": (1, (1, 10, 4), r"the shape \(1, 10, 4\), expected \('T', 1\)"),
}


@pytest.mark.parametrize(("width", "shape", "found"), SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("length", [1600, 1])
def test_outputs_of_another_shape_or_hop_are_errors(monkeypatch, width, shape, found, length):
    outputs = {"a": {"kind": "codes", "hop": 160, "num_codebooks": width, "tensor": "codes"}}
    encoder = encoders.load("onnx", {**AT_ONCE, "outputs": outputs, "input_frames": 1600})
    values = np.arange(np.prod(shape)).reshape(shape)
    monkeypatch.setattr(encoder, "_run", lambda *_: [values])
    if isinstance(found, str):
        with pytest.raises(BuildError, match=found):
            encoder.encode(*_batch(length)[:2])
        return
    codes, (count,) = encoder.encode(*_batch(length)[:2])["a"]
    assert count == min(found, -(-length // 160))
    assert codes[0, :count].flatten().tolist() == list(range(int(count) * width))


AXES = {
    "no channels": (["rows", "time"], (1, 200)),
    "channels before time": (["rows", 1, "time"], (1, 1, 200)),
    "channels after time, as of basic-pitch": (["rows", 200, 1], (1, 200, 1)),
    "channels after time of any length": (["rows", "time", 1], (1, 200, 1)),
    "one number of each": (["rows", 1, 1], (1, 1, 200)),
    "names alone": (["rows", "channels", "time"], (1, 1, 200)),
}


@pytest.mark.parametrize("settings", [{**AT_ONCE, "input_frames": 3200}, IN_CHUNKS], ids=["at once", "in chunks"])
@pytest.mark.parametrize(("axes", "shape"), AXES.values(), ids=AXES)
def test_audio_has_the_axes_of_the_model(monkeypatch, settings, axes, shape):
    encoder, batch, lengths = encoders.load("onnx", settings), *_batch(160)[:2]
    expected, session = encoder.encode(batch, lengths)["level"], encoder._session
    size = settings.get("input_frames", 200)

    def run(names, given):
        assert given["audio"].shape == tuple(size if one == 200 else one for one in shape)
        return session.run(names, given | {"audio": given["audio"].reshape(1, size)})

    monkeypatch.setattr(encoder, "_session", SimpleNamespace(run=run))
    monkeypatch.setitem(encoder._inputs, "audio", SimpleNamespace(shape=axes))
    found = encoder.encode(batch, lengths)["level"]
    assert all(torch.equal(one, other) for one, other in zip(found, expected, strict=True))


@pytest.mark.parametrize("input_frames", [400, 1601, 4001])
def test_windows_of_a_model_of_one_length_are_whole_hops_of_it(input_frames):
    encoder = encoders.load("onnx", {**AT_ONCE, "input_frames": input_frames})
    assert encoder.info.window == input_frames // 160 * 160
    assert 2 * encoder.info.overlap <= encoder.info.window


SILERO = {
    "file": "silero_vad:data/silero_vad_16k_op15.onnx",
    "sample_rate_hz": 16_000,
    "outputs": {"speech": {"kind": "frames", "hop": 512, "dim": 1, "tensor": "output"}},
    "chunk": 512,
    "context": 64,
    "state": {"state": "stateN"},
    "constants": {"sr": 16_000},
}
SEQUENCE = {
    "file": "silero_vad:data/silero_vad_16k_sequence.onnx",
    "outputs": {"speech": {"kind": "frames", "hop": 512, "dim": 1, "tensor": "speech_probs"}},
    "layout": "sequence",
    "state": {"h": "hn", "c": "cn"},
    "constants": {},
}
needs_silero = pytest.mark.skipif(importlib.util.find_spec("silero_vad") is None, reason="needs silero-vad")
needs_speechmos = pytest.mark.skipif(importlib.util.find_spec("speechmos") is None, reason="needs speechmos")


@needs_silero
def test_both_files_of_silero_agree_and_the_package_is_not_imported():
    """Chunk by chunk in a batch, and a recording at once."""
    batch, lengths, _ = _batch(40_000, 9000)
    step, counts = encoders.load("onnx", SILERO).encode(batch, lengths)["speech"]
    whole, same = encoders.load("onnx", SILERO | SEQUENCE).encode(batch, lengths)["speech"]
    assert counts.tolist() == same.tolist() == [79, 18]
    assert torch.allclose(step, whole, atol=1e-4)
    assert float(step.max()) > 0.01
    assert "silero_vad" not in sys.modules


@needs_speechmos
def test_dnsmos_runs_from_the_file_of_its_package():
    """The raw scores are those of the file for the repeated recording."""
    import onnxruntime

    file = "speechmos:dnsmos_models/sig_bak_ovr.onnx"
    encoder = encoders.load("onnx", {
        "file": file, "sample_rate_hz": 16_000, "input_frames": 144_160, "short": "repeat",
        "outputs": {"mos": {"kind": "vector", "dim": 3, "tensor": "Identity:0"}},
    })  # fmt: skip
    batch, lengths, rows = _batch(30_000)
    path = weights.packaged_file("speechmos", "dnsmos_models/sig_bak_ovr.onnx", "")
    session = onnxruntime.InferenceSession(str(Path(path)), providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"input_1": np.resize(rows[0], 144_160)[None]})
    assert np.allclose(encoder.encode(batch, lengths)["mos"], expected, atol=1e-5)
    assert "speechmos" not in sys.modules
