"""No flipped bit of a member that is read whole is delivered, whatever it holds and by any reader."""

import io
import os
import warnings
import zlib

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.checksums import crc32
from headrace.errors import IntegrityError, SampleError
from headrace.format.indexes.index_files import parse_index
from headrace.upkeep.tar_indexes import index_tars
from tests.support.sounds import file_of, music
from tests.support.streaming.fault_server import fault_server
from tests.support.tars import tar_of

RATE_HZ = 16_000
SOUND = music(1_600, 1, RATE_HZ)
OPUS = file_of(SOUND, "OGG", "OPUS", RATE_HZ)
FLAC = file_of(SOUND, "FLAC", "PCM_16", RATE_HZ)


def latents():
    """A `.pth` that is read whole: torch's old format has no places of tensors."""
    file = io.BytesIO()
    content = {"encoder_hidden": torch.arange(64.0).reshape(8, 8), "encoder_length": 8}
    torch.save(content, file, _use_new_zipfile_serialization=False)
    return file.getvalue()


FORMS = {
    "WAV": ({"x.wav": file_of(SOUND, "WAV", "PCM_16", RATE_HZ), "x.json": b"{}"}, "wav"),
    "float WAV": ({"x.wav": file_of(SOUND, "WAV", "FLOAT", RATE_HZ), "x.json": b"{}"}, "wav"),
    "MP3": ({"x.mp3": file_of(SOUND, "MP3", "MPEG_LAYER_III", RATE_HZ), "x.json": b"{}"}, "mp3"),
    "Opus": ({"x.opus": OPUS, "x.json": b"{}"}, "opus"),
    "Vorbis": ({"x.ogg": file_of(SOUND, "OGG", "VORBIS", RATE_HZ), "x.json": b"{}"}, "ogg"),
    "AIFF": ({"x.aiff": file_of(SOUND, "AIFF", "PCM_16", RATE_HZ), "x.json": b"{}"}, "aiff"),
    "a large file": ({"x.flac": FLAC, "x.png": bytes(range(256)) * 300}, "png"),
    "a small file": ({"x.flac": FLAC, "x.cls": b"7"}, "cls"),
    "latents": ({"x.pth": latents(), "x.json": b"{}"}, "pth"),
    "latents beside audio": ({"x.flac": FLAC, "x.pth": latents()}, "pth"),
    "JSON": ({"x.flac": FLAC, "x.json": b'{"label": 12345678}'}, "json"),
}


def stream(**options):
    """A reader of the first sample of a data set."""
    return lambda uri, cache: StreamingDataset(remote=uri, local=cache, batch_size=1, **options)[0]


def batches(**options):
    """A reader of the first batch of a data set."""
    return lambda uri, cache: next(iter(StreamingDataset(remote=uri, local=cache, batch_size=1, **options)))


DOORS = {
    "in place": batches(),
    "one by one": batches(transform=lambda sample: sample),
    "resampled": batches(sample_rate=8_000),
    "cropped": batches(crop_seconds=0.01),
    "by number": stream(),
    "plain": lambda uri, cache: next(iter(webdataset_loader(uri, batch_size=1))),
}
NO_CROPS = {"latents", "latents beside audio"}  # they have no rate
NO_RATES = {"latents"}


def flip(path, start, stop, place):
    """Flip one bit of a member, `place` of the way through it."""
    with path.open("r+b") as file:
        at = start + int(place * (stop - start))
        file.seek(at)
        found = file.read(1)[0]
        file.seek(at)
        file.write(bytes([found ^ 4]))


def indexed(folder, members):
    """The path of a tar that `headrace index` has read, and its index."""
    shard = folder / "a.tar"
    shard.write_bytes(tar_of(members))
    assert not [tar.fault for tar in index_tars(str(folder), num_threads=1) if tar.fault]
    return shard, parse_index((folder / "a.idx").read_bytes(), "a.tar")


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", FORMS)
def test_no_flipped_bit_of_a_local_member_is_delivered(tmp_path, form, door):
    if (door == "cropped" and form in NO_CROPS) or (door == "resampled" and form in NO_RATES):
        pytest.skip("such a sample cannot be read so")
    members, field = FORMS[form]
    shard, index = indexed(tmp_path, members)
    DOORS[door](str(tmp_path), None)
    for place in (0.02, 0.3, 0.7, 0.99):
        flip(shard, *index.range_of(0, field), place)
        os.utime(shard.with_suffix(".idx"))  # or the tar would be taken for changed
        with pytest.raises((SampleError, IntegrityError), match=rf"a\.tar.*{field}.*CRC-32|CRC-32.*x\.{field}"):
            DOORS[door](str(tmp_path), None)
        flip(shard, *index.range_of(0, field), place)
    DOORS[door](str(tmp_path), None)


@pytest.mark.parametrize("form", FORMS)
def test_a_member_that_flipped_in_the_cache_comes_from_the_store(tmp_path, monkeypatch, form):
    members, field = FORMS[form]
    (tmp_path / "data").mkdir()
    _, index = indexed(tmp_path / "data", members)
    with fault_server(tmp_path / "data") as server, warnings.catch_warnings():
        for name, value in server.environment().items():
            monkeypatch.setenv(name, value)
        dataset = StreamingDataset(remote=server.uri, local=str(tmp_path / "cache"), batch_size=1)
        dataset.prepare_shard(0)
        (copy,) = (tmp_path / "cache").glob("*.tar")
        flip(copy, *index.range_of(0, field), 0.5)
        with pytest.warns(UserWarning, match=r"damaged and has been removed"):
            dataset[0]
        assert not copy.exists()


LONG = music(24_000, 1, RATE_HZ)
PARTS = {
    "crops": {"crop_seconds": 0.25},
    "loud crops": {"crop_seconds": 0.25, "crop_min_dbfs": -60},
    "windows": {"window_seconds": 0.25},
    "overlapping windows": {"window_seconds": 0.25, "window_hop_seconds": 0.1},
}


def read_parts(remote, **options):
    """First frame of each part that arrives → its sound."""
    dataset = StreamingDataset(remote=remote, batch_size=1, on_bad_sample="skip", max_bad_samples=10_000, **options)
    batches = [batch for batch in StreamingDataLoader(dataset) if not batch["is_padding"][0]]
    return {int(batch["frame_offset"][0]): batch["audio"][0, :, : batch["num_frames"][0]] for batch in batches}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("is_summed", [True, False], ids=["with checksums", "headers alone"])
def test_a_part_of_a_damaged_flac_is_right_or_an_error(tmp_path, is_summed, parts):
    """dr_flac drops a damaged frame, and those behind it would take its place."""
    (tmp_path / "data").mkdir()
    shard, index = indexed(tmp_path / "data", {"x.flac": file_of(LONG, "FLAC", "PCM_16", RATE_HZ)})
    remote = str(tmp_path / "data")
    if not is_summed:
        (tmp_path / "data/a.idx").unlink()
        remote = str(tmp_path / "indexes")
        index_tars(str(shard), into=remote)
    written = shard.stat().st_mtime_ns
    sound, num_lost = read_parts(remote, **PARTS[parts]), 0
    for place in (0.1, 0.35, 0.5, 0.65, 0.9):
        flip(shard, *index.range_of(0, "flac"), place)
        os.utime(shard, ns=(written, written))  # or the tar would be taken for changed
        found = read_parts(remote, **PARTS[parts])
        assert all(torch.equal(found[start], sound[start]) for start in found)
        num_lost += len(sound) - len(found)
        flip(shard, *index.range_of(0, "flac"), place)
    assert num_lost


@given(st.binary(max_size=2000), st.binary(max_size=2000))
def test_the_checksum_is_that_of_zlib(first, second):
    assert crc32(first) == zlib.crc32(first)
    assert crc32(memoryview(second), crc32(first)) == zlib.crc32(first + second)
