"""Crops and windows of long recordings read and decode about what they keep, and have the same values."""

import io
from dataclasses import dataclass

import numpy as np
import pytest
import soundfile as sf

from headrace import StreamingDataLoader, StreamingDataset
from headrace.audio.decode import decode
from headrace.errors import SampleError
from headrace.format.indexes import seeking
from headrace.streaming.cache.opened import FileShard
from headrace.streaming.samples import stored_sample, stream_reader
from headrace.upkeep.tar_indexes import index_tars
from tests.audio.test_partial import encoded
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of

LONG = clips(6, frames=(90_000, 120_000))
CUTS = {
    "crop": {"crop_seconds": 0.3},
    "crop, resampled": {"crop_seconds": 0.3, "sample_rate": 4000},
    "crop with latents": {"crop_seconds": 0.3, "latents": ["crepe"]},
    "windows": {"window_seconds": 1.0, "window_hop_seconds": 2.5},
    "windows, transformed": {"window_seconds": 1.0, "window_hop_seconds": 2.5, "transform": lambda sample: sample},
}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("long")
    write_dataset(folder, {"train": LONG}, per_shard=3, latents=True)
    return folder


@pytest.fixture
def in_parts(monkeypatch):
    """Make audio of over 20 kB long."""
    for module in (stored_sample, stream_reader):
        monkeypatch.setattr(module, "LONG_BYTES", 20_000)


def batches(remote, cache, **options):
    defaults = {"batch_size": 3, "shuffle": True, "output": "numpy", "local": str(cache)}
    return list(StreamingDataLoader(StreamingDataset(remote=remote, **(defaults | options))))


def assert_same(found, expected):
    for one, other in zip(found, expected, strict=True):
        assert one.keys() == other.keys()
        for name, value in one.items():
            assert np.array_equal(value, other[name]), name


@pytest.mark.parametrize("cut", CUTS)
def test_values_are_those_of_whole_decodes(output, tmp_path, request, cut):
    whole = batches(f"{output}/audio", tmp_path, **CUTS[cut])
    request.getfixturevalue("in_parts")
    assert_same(batches(f"{output}/audio", tmp_path, **CUTS[cut]), whole)


@pytest.mark.parametrize("cut", CUTS)
def test_of_a_store_only_the_ranges_are_read(output, tmp_path, monkeypatch, request, cut):
    whole = batches(f"{output}/audio", tmp_path / "whole", **CUTS[cut])
    request.getfixturevalue("in_parts")
    monkeypatch.setattr("headrace.streaming.shards.view_shards._REQUEST_BYTES", 100)
    with fault_server(output) as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        options = CUTS[cut] | {"shuffle": True, "batch_size": 3, "output": "numpy", "local": str(tmp_path / "parts")}
        made = StreamingDataset(remote=f"{server.uri}/audio", **options)
        loader = StreamingDataLoader(made)
        assert_same(list(loader), whole)
    if "crop" in cut:
        assert not list((tmp_path / "parts").glob("train_*.tar"))
    if cut == "crop":
        assert loader.stats.num_bytes_needed < 6 * 70_000  # of a megabyte


@dataclass(frozen=True)
class _Reads:
    """Bytes that were read of local shards."""

    spans: list


@pytest.fixture
def reads(monkeypatch):
    spans, read = [], FileShard.read
    monkeypatch.setattr(FileShard, "read", lambda self, a, b: spans.append(b - a) or read(self, a, b))
    return _Reads(spans)


def test_of_a_local_file_only_the_ranges_are_read(output, tmp_path, in_parts, reads):
    batches(f"{output}/audio", tmp_path, crop_seconds=0.3)
    size = sum(path.stat().st_size for path in (output / "audio").glob("*.tar"))
    assert sum(reads.spans) < size / 2
    reads.spans.clear()
    batches(f"{output}/audio", tmp_path)
    assert sum(reads.spans) > 0.9 * size


def test_more_than_half_of_a_recording_is_read_whole(output, tmp_path, in_parts, reads):
    batches(f"{output}/audio", tmp_path, crop_seconds=10)
    assert sum(reads.spans) > 0.9 * sum(path.stat().st_size for path in (output / "audio").glob("*.tar"))


def sound(container, subtype, channels, seed):
    random = np.random.default_rng(seed)
    tones = np.sin(np.arange(100_000)[:, None] * random.uniform(0.05, 0.5, channels)) * 0.4
    file = io.BytesIO()
    sf.write(file, tones + 0.05 * random.standard_normal(tones.shape), 16_000, format=container, subtype=subtype)
    return file.getvalue()


@pytest.mark.medium
@pytest.mark.parametrize(
    ("extension", "container", "subtype"),
    [("wav", "WAV", "PCM_24"), ("mp3", "MP3", "MPEG_LAYER_III"), ("ogg", "OGG", "VORBIS"), ("opus", "OGG", "OPUS")],
)
def test_kept_audio_of_plain_tars_is_read_in_parts(tmp_path, in_parts, extension, container, subtype):
    files = {f"k{number}": sound(container, subtype, 2, number) for number in range(4)}
    (tmp_path / "a.tar").write_bytes(tar_of({f"{key}.{extension}": blob for key, blob in files.items()}))
    for batch in batches(str(tmp_path), tmp_path / "cache", crop_seconds=0.5):
        for key, first, audio in zip(batch["keys"], batch["frame_offset"], batch["audio"], strict=True):
            if key:
                whole = decode(files[key])[0][:, first : first + audio.shape[1]]
                assert np.abs(audio - whole).max() < (2**-20 if extension == "opus" else 1e-30)


@pytest.fixture
def indexed(in_parts, monkeypatch):
    monkeypatch.setattr(seeking, "LONG_BYTES", 20_000)


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["mp3", "flac", "ogg"])
def test_with_seek_points_a_store_gives_about_the_bytes_of_the_crops(tmp_path, monkeypatch, indexed, kind):
    container, subtype, most = {"mp3": ("MP3", "MPEG_LAYER_III", 1.5), "flac": ("FLAC", "PCM_16", 1.5)}.get(
        kind, ("OGG", "VORBIS", 4)
    )
    long = encoded(container, subtype, 44_100, 1, 1, seconds=40)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a.tar").write_bytes(tar_of({f"k{number}.{kind}": long for number in range(4)}))
    whole = batches(str(tmp_path / "out"), tmp_path / "cache", crop_seconds=2, batch_size=2)
    index_tars(str(tmp_path / "out"), num_threads=1)
    monkeypatch.setattr("headrace.streaming.shards.view_shards._REQUEST_BYTES", 100)
    assert_same(batches(str(tmp_path / "out"), tmp_path / "cache", crop_seconds=2, batch_size=2), whole)
    with fault_server(tmp_path / "out") as server:
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        made = StreamingDataset(
            remote=server.uri, crop_seconds=2, shuffle=True, batch_size=2, output="numpy", local=str(tmp_path / "s")
        )
        assert_same(list(StreamingDataLoader(made)), whole)
        tars = [request for request in server.requests if "a.tar" in request.path]
        spans = [request.span.removeprefix("bytes=").split("-") for request in tars if request.span]
        sent = sum(int(last) - int(first) + 1 for first, last in spans)
    assert sent < 4 * most * len(long) / 20


def test_damage_in_a_part_is_an_error_that_names_the_sample(tmp_path, in_parts):
    write_dataset(tmp_path, {"train": LONG[:1]}, per_shard=1)
    (shard,) = (tmp_path / "audio").glob("*.tar")
    blob = bytearray(shard.read_bytes())
    for place in range(20_000, len(blob) - 20_000, 3_000):
        blob[place] ^= 1
    shard.write_bytes(blob)
    with pytest.raises(SampleError, match=f"{LONG[0].key}.*CRC-32 .* expected"):
        batches(f"{tmp_path}/audio", tmp_path / "cache", crop_seconds=2)
