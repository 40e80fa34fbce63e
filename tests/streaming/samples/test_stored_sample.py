"""Samples before they are decoded: fields, byte ranges and checksums."""

import zlib
from types import SimpleNamespace

import pytest

from headrace.errors import ConfigError, IntegrityError, NotFoundError, SampleError
from headrace.streaming.samples.stored_sample import BatchRow, StoredAudio, StoredSample, field_columns

BLOB = bytes(range(100))


def sample(fields, spans, audio_fields=(), **more):
    storage = SimpleNamespace(uri="s3://b/audio")
    access = SimpleNamespace(shards=SimpleNamespace(storage=storage), name=lambda shard: f"{shard}.tar")
    columns = field_columns(tuple(fields), tuple(audio_fields))
    file = SimpleNamespace(is_compared=False)
    known = {"num_frames": 50, "sample_rate_hz": 8000, "num_channels": 2, "tensor": None, "crc32": [-1] * len(fields)}
    return StoredSample(access, 3, file, "k", columns, spans=spans, tensor_dtype="", latent_rate_hz=0.0, **known | more)


def test_the_plainest_audio_file_is_the_audio_and_the_rest_are_fields():
    found = sample(["flac", "json", "txt", "wav"], [0, 10, 10, 20, 20, 30, 30, 40])
    (audio,) = found.audio()
    assert audio == StoredAudio("audio", 0, (0, 10), is_flac=True, num_frames=50, num_channels=2)
    assert bytes(audio.cut(0, memoryview(BLOB))) == BLOB[:10]
    assert [name for name, _, _ in found.extra()] == ["txt", "wav"]
    assert found.called == "s3://b/audio/3.tar: sample 'k'"


def test_a_sample_without_its_first_audio_file_has_the_next():
    found = sample(["flac", "json", "wav"], [-1, -1, 10, 20, 30, 40])
    assert [(audio.span, audio.is_flac) for audio in found.audio()] == [((30, 40), False)]
    assert list(found.extra()) == []
    assert (found.span(0), found.span(None), found.span(1)) == (None, None, (10, 20))


def test_named_audio_fields_have_their_own_facts():
    found = sample(
        ["mix.flac", "vocals.wav", "json"],
        [0, 10, 10, 20, 20, 30],
        ["mix", "vocals"],
        audio_facts=[[50, 2], [48, 1]],
    )
    assert [(audio.name, audio.num_frames, audio.num_channels) for audio in found.audio()] == [
        ("mix", 50, 2),
        ("vocals", 48, 1),
    ]
    assert found.columns.audio_names == ("mix", "vocals")
    assert list(found.extra()) == []


def test_latents_and_json_are_no_extra_fields():
    columns = field_columns(("pth", "json", "txt"))
    assert (columns.latents, columns.json, columns.extra) == (0, 1, (("txt", 2),))
    assert columns.beside_latents == (1, 2)


def test_a_file_with_a_name_of_a_batch_is_an_error_that_names_the_sample():
    found = sample(["flac", "keys", "txt"], [0, 10, 10, 20, 20, 30])
    with pytest.raises(ConfigError, match=r"3\.tar: sample 'k': its file \.keys would become the field 'keys'"):
        list(found.extra())


def test_bytes_are_compared_with_their_checksum_unless_that_was_done():
    found = sample(["txt"], [0, 10], crc32=[zlib.crc32(BLOB[:10])])
    assert found.checked(0, memoryview(BLOB[:10])) == BLOB[:10]
    with pytest.raises(IntegrityError, match=r"field 'txt': CRC-32 .* expected"):
        found.checked(0, memoryview(BLOB[1:11]))
    found.file.is_compared = True
    assert found.checked(0, memoryview(BLOB[1:11])) == BLOB[1:11]


def test_a_shard_that_could_not_be_opened_is_an_error_of_its_samples():
    found = sample(["txt"], [0, 10], fault=NotFoundError("3.tar is gone"))
    found.file = None
    with pytest.raises(SampleError, match=r"3\.tar is gone"):
        found.opened()


def test_a_row_lists_its_own_sample_before_those_that_are_joined():
    one, other = sample(["txt"], [0, 10]), sample(["pth"], [0, 10])
    assert BatchRow(one, (other, None), 7).stored == (one, other, None)
