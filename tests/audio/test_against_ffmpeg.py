"""Lengths and samples of lossy files, beside those that ffmpeg of Debian's packages decodes: 50 files.

`docs/format.md` has the rule for lengths. ffmpeg decodes Opus at 48 kHz always, and gives what follows the first stream
of joined MP3s with its header frame as a frame of audio; the test says how its output is compared.
"""

import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest
import soxr

from headrace.audio import decode, decode_into
from tests.support.mpegs import mp3_of
from tests.support.sounds import file_of, music

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(shutil.which("ffmpeg") is None, reason="ffmpeg is not installed: tools/install-for-tests"),
]


@dataclass(frozen=True)
class Made:
    """A file to decode, and how ffmpeg is asked for it."""

    name: str
    data: bytes
    rate_hz: int
    channels: int


def by_ffmpeg(data: bytes, *options: str) -> bytes:
    """Output of ffmpeg, given a file at its input."""
    command = ["ffmpeg", "-v", "error", "-nostdin", *options]
    done = subprocess.run(command, input=data, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def encoded_by_ffmpeg(wav: bytes, tmp_path, suffix: str, *options: str) -> bytes:
    """A lossy file by ffmpeg's encoders; written to a file, because an MP3's header is written at the end."""
    source, target = tmp_path / "in.wav", tmp_path / f"out{suffix}"
    source.write_bytes(wav)
    subprocess.run(["ffmpeg", "-v", "error", "-nostdin", "-y", "-i", source, *options, target], check=True)
    return target.read_bytes()


def decoded_by_ffmpeg(made: Made, tmp_path) -> np.ndarray:
    """float32 (channels, frames); Opus at 48 kHz."""
    path = tmp_path / f"file.{made.name.partition(' ')[0]}"
    path.write_bytes(made.data)
    pcm = by_ffmpeg(b"", "-i", str(path), "-f", "f32le", "-c:a", "pcm_f32le", "-")
    return np.frombuffer(pcm, np.float32).reshape(-1, made.channels).T


MP3_RATES = (8_000, 11_025, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
OPUS_RATES = (8_000, 12_000, 16_000, 24_000, 48_000)
LENGTHS = (1.0, 2.345)


def mp3s(tmp_path):
    """With LAME's header (by libsndfile and by ffmpeg), without a header, with one that has no LAME tag."""
    for rate in MP3_RATES:
        for channels, seconds in ((1, 1.0), (2, 2.345)):
            num_frames = round(seconds * rate)
            made = mp3_of(num_frames, channels, rate, seed=rate)
            yield Made(f"mp3 with header {rate} {channels}", made.data, rate, channels)
    for rate in (16_000, 44_100, 48_000):
        yield Made(f"mp3 without header {rate}", mp3_of(rate, 1, rate).frames, rate, 1)
        wav = file_of(music(rate * 2 + 77, 2, rate), rate_hz=rate)
        for name, options in {"cbr": ("-b:a", "64k"), "vbr": ("-q:a", "5"), "bare": ("-write_xing", "0")}.items():
            data = encoded_by_ffmpeg(wav, tmp_path, ".mp3", "-c:a", "libmp3lame", *options)
            yield Made(f"mp3 of ffmpeg {name} {rate}", data, rate, 2)


def oggs(tmp_path):
    for rate in OPUS_RATES:
        for seconds in LENGTHS:
            sound = music(round(seconds * rate), 2, rate, seed=rate)
            yield Made(f"opus of libsndfile {rate} {seconds}", file_of(sound, "OGG", "OPUS", rate), rate, 2)
    for rate in (8_000, 16_000, 22_050, 32_000, 44_100, 48_000):
        sound = music(round(1.7 * rate) + 5, 2, rate)
        yield Made(f"ogg of libsndfile {rate}", file_of(sound, "OGG", "VORBIS", rate), rate, 2)
    for rate in (16_000, 44_100, 48_000):
        wav = file_of(music(2 * rate + 11, 1, rate), rate_hz=rate)
        data = encoded_by_ffmpeg(wav, tmp_path, ".ogg", "-c:a", "libvorbis")
        yield Made(f"ogg of ffmpeg {rate}", data, rate, 1)
    wav = file_of(music(96_011, 1, 48_000), rate_hz=48_000)
    for options in (("-b:a", "24k"), ("-b:a", "96k", "-frame_duration", "60")):
        data = encoded_by_ffmpeg(wav, tmp_path, ".opus", "-c:a", "libopus", *options)
        yield Made(f"opus of ffmpeg {options[1]}", data, 48_000, 1)


def compared(made: Made, theirs: np.ndarray) -> str | None:
    """Describe the difference between our decoding and ffmpeg's; None if both agree."""
    ours, rate = decode(made.data)
    if made.name.startswith("opus") and rate != 48_000:
        factor = 48_000 // rate
        if ours.shape[1] != -(-theirs.shape[1] // factor):
            return f"{ours.shape[1]} frames at {rate} Hz, ffmpeg has {theirs.shape[1]} at 48 kHz"
        theirs = soxr.resample(theirs.T, 48_000, rate, quality="VHQ").T[:, : ours.shape[1]]
    if ours.shape != theirs.shape or rate != made.rate_hz:
        return f"{ours.shape} at {rate} Hz, ffmpeg has {theirs.shape}"
    middle = slice(ours.shape[1] // 8, ours.shape[1] * 7 // 8)  # a resampler differs at the edges
    errors = [_error(ours, np.roll(theirs, shift, axis=1), middle) for shift in (0, -1, 1)]
    allowed = 0.1 if made.name.startswith("opus") else 5e-3  # decoders round differently, those of Opus also filter
    if errors[0] > allowed or errors[0] > min(errors):
        return f"samples differ by {errors[0]:.4f} of their level; by {errors[1:]} if moved by one frame"
    return None


def _error(ours: np.ndarray, theirs: np.ndarray, middle: slice) -> float:
    """Root of the mean square of the difference, in relation to that of the samples."""
    return float(np.sqrt(np.mean((ours - theirs)[:, middle] ** 2) / np.mean(ours[:, middle] ** 2)))


def test_lengths_and_samples_are_those_of_ffmpeg(tmp_path):
    """Fifty files, and a part of each: no frame is missing, added or moved."""
    made = [*mp3s(tmp_path), *oggs(tmp_path)]
    assert len(made) >= 49
    faults = {one.name: fault for one in made if (fault := compared(one, decoded_by_ffmpeg(one, tmp_path)))}
    assert faults == {}
    for one in made:
        whole, _ = decode(one.data)
        start = whole.shape[1] // 3
        part = np.empty((one.channels, whole.shape[1] // 5), np.float32)
        decode_into(one.data, part, start)
        assert np.array_equal(part, whole[:, start : start + part.shape[1]]), one.name


def test_joined_mp3s_are_the_files_one_after_another(tmp_path):
    """Ffmpeg decodes the header frame of the second file as silence, and keeps its delay; ours are joined exactly."""
    first, second = mp3_of(44_100, 1), mp3_of(30_000, 1, seed=5)
    joined, _ = decode(first.data + second.data)
    parts = [decoded_by_ffmpeg(Made("mp3", one.data, 44_100, 1), tmp_path) for one in (first, second)]
    assert joined.shape[1] == sum(part.shape[1] for part in parts) == 74_100
    assert np.abs(joined - np.concatenate(parts, axis=1)).max() < 1e-3


def libav_files(tmp_path):
    """20 files in forms that need the extra `av`, by ffmpeg: lossy and lossless, cut by an edit list, with pictures."""
    options = {
        "aac.m4a": ["-c:a", "aac"],
        "alac.m4a": ["-c:a", "alac"],
        "parts.mp4": ["-c:a", "aac", "-movflags", "frag_keyframe+empty_moov"],
        "opus.webm": ["-c:a", "libopus"],
        "vorbis.webm": ["-c:a", "libvorbis"],
        "wma2.wma": ["-c:a", "wmav2"],
    }
    for rate, channels in ((16_000, 1), (44_100, 2), (48_000, 1)):
        wav = file_of(music(rate + 4321, channels, rate), rate_hz=rate)
        for name, how in options.items():
            yield Made(name, encoded_by_ffmpeg(wav, tmp_path, f"-{rate}-{name}", *how), 0, channels)
    whole = tmp_path / "out-44100-aac.m4a"
    cut, picture = tmp_path / "cut.mp4", tmp_path / "picture.mp4"
    quiet = ["ffmpeg", "-v", "error", "-nostdin", "-y"]
    subprocess.run([*quiet, "-ss", "0.3", "-t", "0.5", "-i", whole, "-c", "copy", cut], check=True)
    lavfi = ["-f", "lavfi", "-i", "testsrc=duration=1:size=64x64:rate=10"]
    subprocess.run([*quiet, *lavfi, "-i", whole, "-c:v", "mpeg4", "-c:a", "copy", picture], check=True)
    for path in (cut, picture):
        yield Made(path.name, path.read_bytes(), 0, 2)


def test_forms_of_the_extra_av_have_the_frames_of_ffmpeg(tmp_path):
    pytest.importorskip("av", reason="the extra av is not installed")
    made = list(libav_files(tmp_path))
    assert len(made) == 20
    for one in made:
        path = tmp_path / f"file-{one.name}"
        path.write_bytes(one.data)
        pcm = by_ffmpeg(b"", "-i", str(path), "-f", "f32le", "-c:a", "pcm_f32le", "-")
        wanted, found = np.frombuffer(pcm, np.float32).reshape(-1, one.channels).T, decode(one.data)[0]
        assert found.shape == wanted.shape, one.name
        assert np.abs(found - wanted).max() < 1e-5, one.name
