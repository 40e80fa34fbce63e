"""Fields that are wanted: only these are read, decoded and fetched; latents may be read without their audio."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from headrace import Stream, StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError
from headrace.streaming.batches import decode_audio, decode_latents, in_place_batch, sample_bytes
from tests.support.streaming.columns import spec, write_columns
from tests.support.streaming.corpus import clips, write_dataset, write_latents
from tests.support.streaming.drills import keys_once_kept
from tests.support.tars import tar_of

SAMPLES = {"train": clips(13)}
FINE = {"train": [replace(clip, encoder=1, latent_hop=25) for clip in SAMPLES["train"]]}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """An output with latents at two rates, and captions."""
    made = tmp_path_factory.mktemp("fields")
    audio = write_dataset(made, SAMPLES, latents=True)
    write_latents(made, FINE, audio, name="fine")
    write_columns(made, "captions", {spec("caption", "string"): lambda clip: clip.key}, SAMPLES, audio)
    return made


@pytest.fixture
def decoded(monkeypatch):
    """List of the decoded kinds: `audio`, `latents` and `json`."""
    found = []
    for module, name, what in (
        (decode_audio, "fill_audio", "audio"),
        (in_place_batch, "fill_audio", "audio"),
        (decode_audio, "open_encoded", "audio"),
        (decode_latents, "fill_latents", "latents"),
        (in_place_batch, "fill_latents", "latents"),
        (sample_bytes, "metadata_of", "json"),
    ):
        own = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, own=own, what=what, **k: (found.append(what), own(*a, **k))[1])
    return found


def batches(folder, where="audio", **more):
    return list(StreamingDataLoader(StreamingDataset(remote=f"{folder}/{where}", batch_size=5, shuffle=True, **more)))


@pytest.mark.parametrize(
    ("fields", "names", "kinds"),
    [
        (["metadata"], {"keys", "metadata", "is_padding"}, {"json"}),
        (["audio"], {"keys", "audio", "num_frames", "sample_rate", "is_padding"}, {"audio"}),
        (["encoder_hidden"], {"keys", "encoder_hidden", "encoder_length", "is_padding"}, {"latents"}),
    ],
)
def test_only_the_wanted_fields_are_decoded(folder, decoded, fields, names, kinds):
    found = batches(folder, fields=fields, latents=[f"{folder}/latents/crepe"])
    assert set(found[0]) == names
    assert set(decoded) == kinds
    decoded.clear()
    whole = batches(folder, latents=[f"{folder}/latents/crepe"])
    assert set(decoded) == {"audio", "latents", "json"}
    for one, other in zip(found, whole, strict=True):
        for name in names:
            is_equal = torch.equal if isinstance(one[name], torch.Tensor) else list.__eq__
            assert is_equal(one[name], other[name])


def test_columns_come_without_the_json(folder, decoded):
    first, *_ = batches(folder, fields=["audio"], columns=["captions"])
    assert first["metadata"] == [{"caption": key} for key in first["keys"]]
    assert "json" not in decoded


def test_latents_are_cut_at_the_same_place_with_and_without_their_audio(folder, decoded):
    latents = [f"{folder}/latents/crepe"]
    whole = batches(folder, latents=latents, crop_frames=200)
    decoded.clear()
    alone = batches(folder, latents=latents, crop_frames=200, fields=["encoder_hidden"])
    assert set(decoded) == {"latents"}
    for one, other in zip(alone, whole, strict=True):
        assert torch.equal(one["encoder_hidden"], other["encoder_hidden"])
        assert torch.equal(one["encoder_offset"], other["encoder_offset"])


@pytest.mark.parametrize(
    ("where", "joined"), [("audio", ""), ("audio", "crepe"), ("latents/fine", ""), ("latents/fine", "crepe")]
)
def test_a_batch_says_where_its_crops_begin_though_nothing_that_is_cut_is_read(folder, decoded, where, joined):
    more = {"latents": [f"{folder}/latents/{joined}"] if joined else [], "crop_seconds": 0.02}
    whole = batches(folder, where, **more)
    decoded.clear()
    for one, other in zip(batches(folder, where, fields=["metadata"], **more), whole, strict=True):
        assert torch.equal(one["start_seconds"], other["start_seconds"])
    assert set(decoded) == {"json"}


def test_where_a_crop_begins_is_unknown_without_a_length(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of({"a.txt": b"words", "a.json": b"{}"}))
    (batch,) = StreamingDataLoader(StreamingDataset(remote=tmp_path, crop_frames=9, fields=["metadata"]))
    assert batch["start_seconds"].isnan().all()


def test_of_joined_latents_only_the_wanted_are_read(folder):
    latents = [f"{folder}/latents/crepe", f"{folder}/latents/fine"]
    first, *_ = batches(folder, latents=latents, fields=["encoder_hidden_fine"])
    assert set(first) == {"keys", "encoder_hidden_fine", "encoder_length_fine", "is_padding"}


@pytest.mark.parametrize("transform", [None, dict], ids=["in place", "sample by sample"])
@pytest.mark.parametrize(("own", "joined"), [("fine", "crepe"), ("crepe", "fine")])
def test_latents_join_other_latents_without_audio(folder, decoded, own, joined, transform):
    more = {"latents": [f"{folder}/latents/{joined}"], "transform": transform}
    found = batches(folder, f"latents/{own}", **more)
    clips_of = {"crepe": SAMPLES["train"], "fine": FINE["train"]}
    for batch in found:
        for row, key in enumerate(batch["keys"]):
            for name in (own, joined) if key else ():
                hidden = clips_of[name][int(key[4:])].hidden()
                length = int(batch[f"encoder_length_{name}"][row])
                assert np.array_equal(batch[f"encoder_hidden_{name}"][row, :length].numpy(), hidden)
    cut = batches(folder, f"latents/{own}", crop_seconds=0.025, **more)
    for batch in cut:
        real = torch.tensor([bool(key) for key in batch["keys"]])
        coarse, fine = batch["encoder_offset_crepe"][real], batch["encoder_offset_fine"][real]
        assert torch.equal(fine, 4 * coarse)  # the slower latents decide where a crop may begin
        assert set(batch["encoder_length_crepe"][real].tolist()) == {2}
        assert set(batch["encoder_length_fine"][real].tolist()) == {8}
    assert "audio" not in decoded
    assert "audio" not in found[0]


def test_a_folder_without_a_time_axis_cannot_be_cut_with_others(tmp_path):
    audio = write_dataset(tmp_path, SAMPLES, latents=True)
    vectors = {"train": [replace(clip, latent_hop=10**6) for clip in SAMPLES["train"]]}
    write_latents(tmp_path, vectors, audio, name="vectors")
    latents = [f"{tmp_path}/latents/crepe"]
    assert len(batches(tmp_path, "latents/vectors", latents=latents)) == 3
    with pytest.raises(ConfigError, match=r"vectors: no sample has more than one frame, .* as remote"):
        batches(tmp_path, "latents/vectors", latents=latents, crop_seconds=0.01)


def test_two_folders_of_one_name_are_an_error(folder):
    with pytest.raises(ConfigError, match="two folders of latents are called 'crepe'"):
        batches(folder, "latents/crepe", latents=[f"{folder}/latents/crepe"])


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (["adio"], "fields: the samples in .*audio have no field 'adio'; they have audio, metadata$"),
        (["encoder_hidden"], "have no field 'encoder_hidden'"),
        ([], "fields is empty: name at least one field"),
        ("audio", "fields is 'audio': expected a list of names of fields"),
    ],
)
def test_wrong_fields_are_named(folder, fields, message):
    with pytest.raises(ConfigError, match=message):
        StreamingDataset(remote=folder, fields=fields)


def test_fields_of_plain_tars_are_chosen_by_their_extensions(tmp_path):
    flac = clips(1)[0].flac()
    members = {f"{key}.{name}": blob for key in "ab" for name, blob in (
        ("flac", flac), ("mic.flac", flac), ("txt", key.encode()), ("json", b"{}")
    )}  # fmt: skip
    (tmp_path / "a.tar").write_bytes(tar_of(members))
    (tmp_path / "b.tar").write_bytes(tar_of({"c.flac": flac, "c.cls": b"7"}))
    only = StreamingDataset(remote=tmp_path / "a.tar", fields=["txt"])
    assert only[1] == {"__key__": "b", "txt": b"b"}
    sample = StreamingDataset(remote=tmp_path / "a.tar", fields=["audio", "txt"])[0]
    assert set(sample) == {"__key__", "audio", "sample_rate", "txt"}
    assert "mic.flac" in StreamingDataset(remote=tmp_path / "a.tar")[0]
    assert StreamingDataset(remote=tmp_path, fields=["cls"])[2] == {"__key__": "c", "cls": b"7"}
    with pytest.raises(ConfigError, match="no field 'pth'; they have audio, cls, metadata, mic"):
        StreamingDataset(remote=tmp_path, fields=["pth"])


def test_streams_have_fields_of_their_own(folder):
    streams = [Stream(f"{folder}/audio", fields=["metadata"], name="one"), Stream(f"{folder}/audio", name="two")]
    dataset = StreamingDataset(streams=streams, fields=["audio"])
    assert set(dataset[0]) == {"__key__", "metadata"}
    assert "audio" in dataset[13]


@pytest.mark.medium
def test_shards_that_only_the_first_batch_needs_are_kept_for_later_epochs(server, tmp_path):
    made = StreamingDataset(remote="s3://bucket/audio", local=tmp_path, split="train", batch_size=64)
    loader = StreamingDataLoader(made)
    assert len(keys_once_kept(loader, tmp_path, 11)) == 64
    before = len(server.requests)
    list(loader)
    assert [request for request in server.requests[before:] if request.path.endswith(".tar")] == []


def test_of_a_store_only_the_ranges_of_wanted_fields_are_fetched(server, dataset_folder, tmp_path):
    def read(**more):
        dataset = StreamingDataset(
            remote="s3://bucket/audio",
            local=tmp_path / more["name"],
            split="train",
            batch_size=8,
            fields=more["fields"],
        )
        loader = StreamingDataLoader(dataset)
        keys = keys_once_kept(loader, tmp_path / more["name"], more["kept"])
        return keys, loader.stats

    keys, small = read(name="json", fields=["metadata"], kept=0)
    other_keys, whole = read(name="all", fields=None, kept=11)
    assert keys == other_keys
    json_bytes = sum(len(clip.json()) for clip in clips(53))
    assert json_bytes <= small.num_bytes_needed < 2 * json_bytes < whole.num_bytes_needed
