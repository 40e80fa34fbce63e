"""MP4, Matroska and ASF by the extra `av`: through every door, whole or as parts, damaged, and without the extra."""

import contextlib
import io
import random
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from headrace import StreamingDataset
from headrace.audio import AudioFormat, Span, decode, decode_into, encode_spans, probe, probe_version
from headrace.audio.containers import Form
from headrace.audio.libav_sound import _missed_skip
from headrace.audio.writer import codec_version
from headrace.errors import AudioError
from tests.support.builds import Project, check
from tests.support.libav import libav_file
from tests.support.sounds import music, pcm_of

pytest.importorskip("av", reason="the extra av is not installed")

RATE = 16_000
SOUND = music(12_345, 2, RATE)
FORMS = [
    ("mp4", "aac", "MP4", "AAC"),
    ("mp4", "alac", "MP4", "ALAC_16"),
    ("matroska", "aac", "MATROSKA", "AAC"),
    ("asf", "wmav2", "ASF", "WMAV2"),
]
ALAC = libav_file("mp4", "alac", SOUND, RATE)
WMA = libav_file("asf", "wmav2", SOUND, RATE)


def probed(data):
    return probe(io.BytesIO(data), num_bytes=len(data))


@pytest.mark.parametrize(("form", "codec", "container", "subtype"), FORMS)
def test_the_length_that_is_probed_is_the_length_that_is_decoded(form, codec, container, subtype):
    data = libav_file(form, codec, SOUND, RATE)
    info = probed(data)
    assert (info.container, info.subtype, info.sample_rate_hz, info.num_channels) == (container, subtype, RATE, 2)
    found, rate = decode(data)
    assert (found.shape, rate) == ((2, info.num_frames), RATE)
    part = np.empty((2, 1000), np.float32)
    decode_into(data, part, 5000)
    assert np.array_equal(part, found[:, 5000:6000])


def test_lossless_audio_is_that_of_the_recording():
    found, _ = decode(ALAC)
    assert np.array_equal(found.T, np.round(SOUND * 32768).astype(np.float32) / 32768)


def lag(found, wanted):
    """By how many frames, in steps of 4, the sound begins late."""
    inner = wanted[9000:20_000]
    fit = {late: float(inner @ found[9000 + late : 20_000 + late]) for late in range(-1600, 1600, 4)}
    return max(fit, key=fit.get)


def test_an_mp4_begins_at_its_edit_list():
    sound = music(30_000, 1, RATE)
    assert lag(decode(libav_file("mp4", "aac", sound, RATE))[0][0], sound[:, 0]) == 0


def test_webm_begins_behind_the_delay_of_its_codec():
    sound = music(30_000, 1, 48_000)
    assert lag(decode(libav_file("webm", "libopus", sound, 48_000))[0][0], sound[:, 0]) == 0


def test_the_delay_of_opus_counts_at_48_khz_whatever_the_rate_of_the_track_is():
    head = b"OpusHead\1\1" + (312).to_bytes(2, "little") + bytes(7)
    codec = SimpleNamespace(name="opus", extradata=head, delay=104)
    assert _missed_skip(Form.MATROSKA, codec) == 208
    assert _missed_skip(Form.MP4, codec) == 0
    assert _missed_skip(Form.MATROSKA, SimpleNamespace(name="vorbis", extradata=head, delay=0)) == 0


def test_spans_are_cut_at_their_frames():
    info, (whole, _) = probed(ALAC), decode(ALAC)
    spans = [Span(100, 4000), Span(50, 200, (1,)), Span(9000, info.num_frames)]
    found = dict(encode_spans(io.BytesIO(ALAC), info, AudioFormat(), spans))
    for number, span in enumerate(spans):
        want = whole[list(span.channels) or [0, 1], span.start_frame : span.stop_frame]
        assert np.array_equal(pcm_of(found[number]).T / 2**31, want)


@pytest.mark.medium
def test_data_sets_are_built_from_them(tmp_path):
    project = Project(tmp_path, audio=AudioFormat(segment_seconds=0.25))
    sounds = {codec: libav_file(form, codec, SOUND, RATE) for form, codec, *_ in FORMS if form != "matroska"}
    for codec, data in sounds.items():
        (tmp_path / f"source/{codec}.m4a").write_bytes(data)
    check(project, project.build())
    found = {}
    for sample in StreamingDataset(remote=project.shards.uri, batch_size=1):
        about = sample["metadata"]["headrace"]
        found.setdefault(about["source"], {})[about["start_frame"]] = sample["audio"].numpy()
    for codec, data in sounds.items():
        joined = np.concatenate([part for _, part in sorted(found[f"{codec}.m4a"].items())], axis=1)
        assert np.allclose(joined, decode(data)[0], atol=2**-15)


@pytest.mark.parametrize(("form", "codec", "container", "subtype"), FORMS)
def test_a_missing_end_is_noticed(form, codec, container, subtype):
    data = libav_file(form, codec, SOUND, RATE)[:-1000]
    with pytest.raises(AudioError) as caught:
        probed(data)
    assert caught.value.reason == "truncated", (container, subtype)


def test_damage_is_an_error_and_so_is_a_file_without_audio():
    start = ALAC.index(b"mdat") + 100
    damaged = ALAC[:start] + bytes(range(256)) * 8 + ALAC[start + 2048 :]
    with pytest.raises(AudioError) as caught:
        probed(damaged)
    assert caught.value.reason == "undecodable"
    empty = b"\0\0\0\x10ftypisom\0\0\0\0"
    with pytest.raises(AudioError, match="MP4, M4A or 3GP") as caught:
        probed(empty)


def test_tags_in_another_encoding_do_not_matter():
    tagged = ALAC.replace(b"Lavf", b"L\xe4\xff\xf6")
    assert tagged != ALAC
    assert np.array_equal(decode(tagged)[0], decode(ALAC)[0])


@pytest.mark.parametrize("seed", range(20))
def test_whatever_is_damaged_is_an_audio_error_or_read_in_its_probed_length(seed):
    rng = random.Random(seed)
    data = bytearray(rng.choice([ALAC, WMA]))
    for _ in range(3):
        data[rng.randrange(len(data) if rng.random() < 0.5 else 900)] = rng.randrange(256)
    with contextlib.suppress(AudioError):
        info = probed(bytes(data))
        assert decode(bytes(data))[0].shape == (info.num_channels, info.num_frames)


def test_without_the_extra_the_way_out_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(AudioError, match=r"M4A or 3GP, which needs the extra av; .*headrace\[av\]") as caught:
        probed(ALAC)
    assert caught.value.reason == "unsupported"


def test_a_scan_looks_again_at_rejects_once_the_extra_is_there(monkeypatch):
    with_extra = probe_version()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert probe_version() == codec_version() != with_extra
