import io
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
import soundfile
import torch

from headrace.errors import FormatError
from headrace.format.indexes.index import ABSENT
from headrace.format.indexes.indexing import audio_field, index_tar, naming_of
from headrace.format.tars.member_names import KeyAt, Naming
from headrace.format.tensors.pth import latent_facts
from tests.support.tars import tar_of


def encoded(num_frames, rate=8000, channels=1, form="FLAC", **options):
    file = io.BytesIO()
    noise = np.random.default_rng(num_frames).uniform(-0.5, 0.5, (num_frames, channels))
    soundfile.write(file, noise, rate, format=form, **options)
    return file.getvalue()


def saved(content):
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def latents(hidden, length=None):
    return saved({"encoder_hidden": hidden, "encoder_length": len(hidden) if length is None else length})


def index_of(members, *audio_fields, **options):
    blob = tar_of(members)
    return index_tar(io.BytesIO(blob), "a.tar", naming=Naming(audio_fields=audio_fields), **options), blob


def test_lengths_rates_and_channels_are_read_from_the_headers_of_every_audio_format():
    index, _ = index_of(
        {
            "a.flac": encoded(1000),
            "b.wav": encoded(500, 16_000, 2, "WAV"),
            "c.ogg": encoded(4000, 8000, 1, "OGG", subtype="VORBIS"),
            "d.mic.flac": encoded(70),
            "e.aiff": encoded(60, form="AIFF"),
        }
    )
    assert index.keys() == ["a", "b", "c", "d", "e"]
    assert index.num_frames.tolist() == [1000, 500, 4000, 70, 60]
    assert index.sample_rate_hz.tolist() == [8000, 16_000, 8000, 8000, 8000]
    assert index.num_channels.tolist() == [1, 2, 1, 1, 1]
    assert index.num_bytes % 512 == 0


def test_ranges_are_those_of_the_payloads():
    members = {"a.flac": encoded(100), "a.json": b'{"x": 1}', "a.cls": b"3"}
    index, blob = index_of(members)
    for name in ("flac", "json", "cls"):
        start, stop = index.range_of(0, name)
        assert blob[start:stop] == members[f"a.{name}"]


def test_unreadable_audio_is_indexed_with_unknown_length():
    index, _ = index_of({"a.flac": b"fLaC", "b.wav": b"not audio", "c.mp3": b"", "d.json": b"{}"})
    assert index.num_frames.tolist() == [-1, -1, -1, -1]
    assert index.sample_rate_hz.tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_raw_tensors_are_at_the_ranges_in_the_index(dtype):
    hidden = [torch.randn(7 + number, 4).to(dtype) for number in range(3)]
    index, blob = index_of({f"k{number}.pth": latents(values) for number, values in enumerate(hidden)})
    assert index.tensor_dtype == str(dtype).removeprefix("torch.")
    assert index.num_frames.tolist() == [7, 8, 9]
    for values, (start, stop, num_frames, width) in zip(hidden, index.tensors[:, 0].tolist(), strict=True):
        found = torch.frombuffer(bytearray(blob[start:stop]), dtype=dtype).reshape(num_frames, width)
        assert torch.equal(found, values)


def test_the_length_in_the_index_is_encoder_length():
    index, _ = index_of({"a.pth": latents(torch.randn(9, 4), 6)})
    assert index.num_frames.tolist() == [6]
    assert index.tensors[0, 0, 2:].tolist() == [9, 4]


def test_views_and_legacy_files_are_left_to_unpickling():
    strided = torch.randn(4, 10).T
    legacy = io.BytesIO()
    torch.save({"encoder_hidden": torch.ones(2, 2), "encoder_length": 2}, legacy, _use_new_zipfile_serialization=False)
    part = torch.randn(20, 4)[5:9]
    index, _ = index_of({"a.pth": latents(strided), "b.pth": legacy.getvalue(), "c.pth": latents(part)})
    assert index.num_frames.tolist() == [10, 2, 4]
    assert (index.tensors == -1).all()


def test_tensors_of_another_dtype_than_the_first_are_left_to_unpickling():
    index, _ = index_of({"a.pth": latents(torch.ones(2, 2).half()), "b.pth": latents(torch.ones(2, 2))})
    assert index.tensor_dtype == "float16"
    assert (index.tensors[:, 0, 0] == -1).tolist() == [False, True]


def test_encoder_hidden_is_found_among_other_tensors():
    hidden = torch.randn(5, 3)
    facts = latent_facts(saved({"other": torch.zeros(5, 3), "encoder_hidden": hidden, "encoder_length": 5}))
    start, stop, *_ = facts.tensor.place
    blob = saved({"other": torch.zeros(5, 3), "encoder_hidden": hidden, "encoder_length": 5})
    assert blob[start:stop] == hidden.numpy().tobytes()


class Explodes:
    def __reduce__(self):
        return (pytest.fail, ("unpickling ran code",))


@pytest.mark.parametrize(
    "content",
    [
        {"encoder_hidden": Explodes(), "encoder_length": 1},
        {"encoder_hidden": torch.ones(3), "encoder_length": 3},
        {"encoder_hidden": [1, 2], "encoder_length": 2},
        {"encoder_length": 2},
        torch.ones(2, 2),
        5,
    ],
)
def test_other_pickles_are_not_executed_and_have_no_length(content):
    assert latent_facts(saved(content)) is None


def test_random_bytes_are_not_latents():
    assert latent_facts(b"") is None
    assert latent_facts(b"PK\x03\x04" + bytes(100)) is None


def test_an_invalid_webdataset_is_an_error():
    with pytest.raises(FormatError, match="not neighbours"):
        index_of({"a.flac": b"", "b.flac": b"", "a.json": b"{}"})


def test_a_flac_stream_that_does_not_state_its_length_is_counted():
    stream = bytearray(encoded(1000))
    stream[21:26] = bytes([stream[21] & 0xF0, 0, 0, 0, 0])  # 36 bits of STREAMINFO
    index, _ = index_of({"a.flac": bytes(stream), "b.flac": encoded(1)})
    assert index.num_frames.tolist() == [1000, 1]
    assert index.sample_rate_hz.tolist() == [8000, 8000]


def test_a_sample_with_named_audio_fields_ends_with_the_shortest():
    members = {
        "a.mix.flac": encoded(1000, channels=2),
        "a.voice.flac": encoded(990),
        "b.mix.flac": encoded(500),
        "c.mix.flac": b"not audio",
        "c.voice.wav": b"not audio",
        "d.mix.flac": encoded(700),
        "d.mix.wav": encoded(30, form="WAV"),
        "d.voice.flac": encoded(700, 16_000),
        "e.txt": b"no audio",
    }
    index, _ = index_of(members, "mix", "voice")
    assert index.audio_fields == ("mix", "voice")
    assert index.audio_facts.tolist() == [
        [[1000, 2], [990, 1]],
        [[500, 1], [ABSENT, 0]],
        [[ABSENT, 0], [ABSENT, 0]],
        [[700, 1], [700, 1]],
        [[ABSENT, 0], [ABSENT, 0]],
    ]
    assert index.num_frames.tolist() == [990, ABSENT, ABSENT, ABSENT, ABSENT]
    assert index.sample_rate_hz.tolist() == [8000, 0, 0, 0, 0]
    assert index.num_channels.tolist() == [2, 0, 0, 0, 0]


def test_named_audio_fields_are_those_that_the_json_of_the_first_such_sample_lists():
    listed = json.dumps({"headrace": {"fields": {"mix": {}, "voice": {}}}}).encode()
    named = {"b.mix.flac": encoded(70), "b.voice.flac": encoded(70)}
    assert index_of({"b.json": listed, **named})[0].audio_fields == ("mix", "voice")
    index, _ = index_of({"a.flac": encoded(80), "a.json": b"{}", "b.json": listed, **named})
    assert index.audio_fields == ("mix", "voice")
    assert index.num_frames.tolist() == [ABSENT, 70]  # the first sample has no audio of these names
    assert index_of({"a.wav": b"", "a.b.flac": b"", "b.json": listed, **named})[0].audio_fields == ("mix", "voice")
    for other in (b"{", b"[1]", b"{}"):
        index, _ = index_of({"b.flac": encoded(90), "b.json": other, **named})
        assert (index.audio_fields, index.num_frames.tolist()) == ((), [90])


def test_audio_fields_that_no_sample_has_are_an_error_that_shows_a_name_they_could_have():
    said = (
        r"a\.tar: no sample has the audio field 'vox', a file like a\.vox\.flac; the fields in the tar are flac, json: "
    )
    with pytest.raises(FormatError, match=said):
        index_of({"a.flac": encoded(9), "b.flac": encoded(9), "b.json": b"{}"}, "vox", "drums")
    index, _ = index_of({}, "vox")
    assert index.keys() == []


def test_checksums_are_of_every_field_unless_only_headers_are_read():
    members = {"a.flac": encoded(9), "a.json": b"{}"}
    index, _ = index_of(members)
    assert index.crc32.tolist() == [[zlib.crc32(members["a.flac"]), zlib.crc32(members["a.json"])]]
    bare, _ = index_of(members, has_checksums=False)
    assert bare.crc32.tolist() == [[ABSENT, ABSENT]]
    assert bare.num_frames.tolist() == [9]


def test_an_index_that_a_build_wrote_declares_its_fields():
    index, _ = index_of({"a.mix.flac": encoded(9), "a.json": b"{}"}, "mix")
    assert naming_of(KeyAt.LAST_DOT, None) == Naming(KeyAt.LAST_DOT)
    assert naming_of(KeyAt.FIRST_DOT, index) == Naming(audio_fields=("mix",))
    built = replace(index, input_digest="digest")
    assert naming_of(KeyAt.FIRST_DOT, built) == Naming(declared=frozenset({"json", "mix.flac"}), audio_fields=("mix",))


def test_the_plainest_audio_field_is_chosen():
    assert audio_field(("json", "mic.flac", "flac")) == "flac"
    assert audio_field(("wav", "mic.flac")) == "mic.flac"
    assert audio_field(("json", "pth")) is None


def test_a_rebuilt_index_of_our_own_shard_equals_the_original(tmp_path):
    from headrace.format.indexes.index_entries import SampleEntry
    from headrace.format.shards.writer import ShardPlace, ShardWriter
    from headrace.stores.storage import LocalStorage

    storage = LocalStorage(tmp_path)
    with ShardWriter(storage, ShardPlace("train", 0, 0)) as writer:
        for number in (300, 200):
            flac, text = encoded(number), json.dumps({"n": number}).encode()
            payloads = {"flac": (flac, len(flac)), "json": (text, len(text))}
            writer.add(f"k{number}", payloads, SampleEntry("", {}, number, 8000, 1))
        ours = writer.publish("", {})
    with storage.open(ours.shard) as file:
        theirs = index_tar(file, ours.shard, sha256=ours.sha256)
    assert theirs.to_bytes() == ours.to_bytes()
