"""MPEG audio is as long as its frames are many, whatever its headers say."""

import io
import tracemalloc

import numpy as np
import pytest

from headrace.audio import AudioFormat, AudioReject, decode, encode_segments, flac_info, plan_segments
from headrace.audio.mpeg import FrameScanner, mpeg_streams
from tests.support.mpeg import reference, refusal_of
from tests.support.mpegs import mp3_of
from tests.support.sounds import encoded, pcm_of, probed


def test_what_is_catalogued_is_what_is_written_for_a_file_without_a_header():
    mp3 = mp3_of(100_000)
    (segment,) = encoded(mp3.frames)
    assert segment.num_frames == flac_info(segment.payload).num_frames == mp3.num_frames * 1152
    parts = encoded(mp3.frames, AudioFormat(segment_seconds=0.3))
    np.testing.assert_array_equal(np.concatenate([pcm_of(part) for part in parts]), pcm_of(segment))


@pytest.mark.parametrize("promised", [0, 1, 20, 1_000_000])
def test_a_header_that_counts_wrong_is_not_believed(promised):
    mp3 = mp3_of(100_000)
    data = mp3.promising(promised)
    if promised > mp3.num_frames:
        assert refusal_of(data).reason == AudioReject.TRUNCATED
    else:
        assert probed(data).num_frames == 100_000
        np.testing.assert_array_equal(decode(data)[0], reference(mp3.data))


@pytest.mark.parametrize("other", [(2, 44_100), (1, 48_000), (1, 22_050)])
def test_unlike_files_that_were_joined_are_refused_with_the_place(other):
    first = mp3_of(20_000)
    error = refusal_of(first.data + mp3_of(20_000, *other).data)
    assert error.reason == AudioReject.UNSUPPORTED
    assert f"byte {len(first.data)} " in str(error)


@pytest.mark.parametrize("with_header", [True, False])
def test_a_frame_that_is_cut_off_is_found_at_the_scan(with_header):
    mp3 = mp3_of(50_000)
    data = mp3.data if with_header else mp3.frames
    for cut in (len(data) // 2, len(data) - 20):
        assert refusal_of(data[:cut]).reason == AudioReject.TRUNCATED


def test_frames_that_are_missing_at_the_end_are_found_by_the_header():
    mp3 = mp3_of(50_000)
    kind = mp3.data[:2]
    whole_frames = mp3.data[: mp3.data.index(kind, len(mp3.data) // 2)]
    assert refusal_of(whole_frames).reason == AudioReject.TRUNCATED


def test_bytes_between_frames_that_are_no_tag_are_damage():
    mp3 = mp3_of(50_000)
    at = mp3.data.index(mp3.data[:2], len(mp3.data) // 2)
    error = refusal_of(mp3.data[:at] + b"no audio" + mp3.data[at:])
    assert error.reason == AudioReject.UNDECODABLE
    assert f"byte {at}," in str(error)
    assert refusal_of(mp3.frames + b"no audio").reason == AudioReject.UNDECODABLE


def test_bytes_behind_all_that_the_header_promises_are_no_fault():
    mp3 = mp3_of(50_000)
    np.testing.assert_array_equal(decode(mp3.data + b"no audio" * 9)[0], reference(mp3.data))
    error = refusal_of(mp3.data + b"no audio" * 9 + mp3.data)
    assert error.reason == AudioReject.UNDECODABLE


@pytest.mark.medium
def test_memory_does_not_grow_with_a_file_of_many_streams():
    data = b"".join(mp3_of(100_000, seed=i).data for i in range(2)) * 10
    info = probed(data)
    segments = plan_segments(info.num_frames, info.sample_rate_hz, AudioFormat(segment_seconds=2))
    tracemalloc.start()
    try:
        for segment in encode_segments(io.BytesIO(data), info, AudioFormat(), segments, block_samples=1 << 14):
            del segment
        assert tracemalloc.get_traced_memory()[1] < 4 << 20  # the recording as float32 would be 8 MB
    finally:
        tracemalloc.stop()


def test_the_position_is_kept_for_a_file_of_many_streams(tmp_path):
    path = tmp_path / "joined"
    data = mp3_of(20_000).data * 2
    path.write_bytes(data)
    with path.open("rb") as file:
        file.seek(5)
        file.read(3)
        info = probed(data)
        (segment,) = encode_segments(file, info, AudioFormat(), plan_segments(40_000, 44_100, AudioFormat()))
        assert segment.num_frames == 40_000
        assert file.tell() == 8
        assert file.read() == data[8:]


def test_frames_that_are_counted_in_runs_are_those_that_are_counted_one_by_one(monkeypatch):
    mp3 = mp3_of(60_000, 2)
    at = len(mp3.data) // 2
    by_chance = mp3.data[:at] + b"Info Xing VBRI" + mp3.data[at + 14 :]  # inside a frame, at no place of a mark
    header, size = next(iter(mpeg_streams(io.BytesIO(mp3.frames), len(mp3.frames))[0].sizes.items()))
    info = (header + bytes(32) + b"Info").ljust(size, b"\0")  # with a header that frames of audio have
    files = [mp3.data, mp3.frames, by_chance, mp3.data + mp3.data, mp3.data + b"TAG" + bytes(125) + mp3.frames]
    files.append(mp3.data + info + mp3.frames)
    in_runs = [mpeg_streams(io.BytesIO(data), len(data)) for data in files]
    assert [len(streams) for streams in in_runs] == [1, 1, 1, 2, 2, 2]
    assert sum(stream.num_frames for stream in in_runs[3]) == 2 * mp3.num_frames
    monkeypatch.setattr(FrameScanner, "_behind_run", lambda _self, at, _stream: at)
    assert [mpeg_streams(io.BytesIO(data), len(data)) for data in files] == in_runs
