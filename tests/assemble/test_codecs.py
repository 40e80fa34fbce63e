"""Data sets in other codecs than FLAC: what is built, verified and delivered, and shards with a size in bytes."""

import io
import tarfile
from unittest import mock

import numpy as np
import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.audio import AudioFormat, Codec, decode
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.config.source import Digests
from headrace.encoding import clips
from headrace.encoding import sources as encoding_sources
from headrace.encoding.clips import AudioForm, read_clip
from headrace.encoding.sources import audio_shard
from headrace.format.indexes.index_files import read_index
from headrace.sources.bucket_source import BucketSource
from headrace.stores.storage import open_storage
from headrace.streaming.batches import assembler
from headrace.verification.excerpts import read_audio
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.support.builds import Project, check
from tests.support.odd_audio import TAG
from tests.support.sounds import file_of, music

ONE = Partitioning({"train": 1.0}, {"train": 1}, 3)
KINDS = {
    "a": ("MP3", "MPEG_LAYER_III", "mp3"),
    "b": ("OGG", "OPUS", "opus"),
    "c": ("OGG", "VORBIS", "ogg"),
    "d": ("WAV", "FLOAT", "wav"),
    "e": ("FLAC", "PCM_16", "flac"),
    "f": ("AIFF", "PCM_16", "flac"),
}
RATE = 48_000


def project_of(folder, codec, **settings):
    """A project with one recording of each kind, all at one rate, none of one length."""
    project = Project(folder, layout=ONE, audio=AudioFormat(codec=codec, **settings))
    for number, (name, (container, subtype, _)) in enumerate(KINDS.items()):
        sound = music(12_000 + 1_000 * number, 1, RATE, number)
        (folder / "source" / f"{name}.bin").write_bytes(file_of(sound, container, subtype, RATE))
    return project


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    project = project_of(tmp_path_factory.mktemp("copies"), Codec.COPY)
    check(project, project.build())
    return project


def members(project):
    """Name → bytes of each member of the shards."""
    found = {}
    for entry in project.shards.list():
        if entry.path.endswith(".tar"):
            with tarfile.open(fileobj=io.BytesIO(project.shards.read(entry.path))) as tar:
                found |= {info.name: tar.extractfile(info).read() for info in tar}
    return found


def audio_of(project):
    """Name of each recording → extension and bytes of its sample's audio."""
    return {
        name[0]: (name.rpartition(".")[2], blob) for name, blob in members(project).items() if not name.endswith("json")
    }


def test_copies_are_the_bytes_of_the_recordings(copies):
    for name, (extension, blob) in audio_of(copies).items():
        assert extension == KINDS[name][2]
        source = (copies.folder / "source" / f"{name}.bin").read_bytes()
        assert (blob == source) == (KINDS[name][0] != "AIFF")


def delivered(project, **options):
    """Name of each recording → its sample from `StreamingDataset`."""
    dataset = StreamingDataset(remote=project.shards.uri, batch_size=3, **options)
    return {sample["__key__"][0]: sample for sample in dataset}


def test_loaders_deliver_exactly_the_decoded_members_in_the_length_of_the_index(copies):
    streamed = delivered(copies)
    plain = {sample["__key__"][0]: sample for sample in webdataset_loader(copies.shards.uri, batch_size=None)}
    assert streamed.keys() == plain.keys() == KINDS.keys()
    for number, (name, (_, blob)) in enumerate(sorted(audio_of(copies).items())):
        want, rate = decode(blob)
        assert want.shape == (1, 12_000 + 1_000 * number)
        for sample in (streamed[name], plain[name]):
            assert np.array_equal(sample["audio"].numpy(), want)
            assert sample["sample_rate"] == rate == RATE
            assert sample["metadata"]["headrace"]["num_frames"] == want.shape[1]


def test_batches_of_mixed_codecs_are_padded_to_the_lengths_of_the_index(copies):
    dataset = StreamingDataset(remote=copies.shards.uri, batch_size=6)
    (batch,) = StreamingDataLoader(dataset)
    audio = {name: decode(blob)[0] for name, (_, blob) in audio_of(copies).items()}
    for row, key in enumerate(batch["keys"]):
        want = audio[key[0]]
        assert np.array_equal(batch["audio"][row, :, : want.shape[1]].numpy(), want)
        assert not batch["audio"][row, :, want.shape[1] :].any()
    lengths = dict(zip((key[0] for key in batch["keys"]), batch["num_frames"].tolist(), strict=True))
    assert lengths == {name: 12_000 + 1_000 * number for number, name in enumerate(sorted(KINDS))}


@pytest.mark.parametrize("seed", range(3))
def test_a_crop_is_that_part_of_the_whole(copies, seed):
    whole = delivered(copies)
    for name, sample in delivered(copies, crop_frames=3_001, shuffle_seed=seed).items():
        first = sample["frame_offset"]
        assert np.array_equal(sample["audio"].numpy(), whole[name]["audio"][:, first : first + 3_001].numpy())


def test_batches_of_mixed_codecs_are_filled_in_place(copies):
    with mock.patch.object(assembler, "SampleBatch", side_effect=AssertionError("sample by sample")):
        (batch,) = StreamingDataLoader(StreamingDataset(remote=copies.shards.uri, batch_size=6, crop_frames=500))
    assert batch["audio"].shape == (6, 1, 500)


def test_verify_decodes_every_codec_and_finds_nothing_wrong(copies):
    verdict = verify(find_target(copies.shards.uri), Depth(samples_per_shard=10))
    assert (verdict.faults, verdict.num_decoded) == ([], 6)


def test_excerpts_and_clips_for_encoders_are_decoded_from_any_codec(copies):
    want = {name: decode(blob)[0] for name, (_, blob) in audio_of(copies).items()}
    for entry in copies.shards.list():
        if entry.path.endswith(".tar"):
            index = read_index(copies.shards, entry.path)
            for row, key in enumerate(index.keys()):
                assert np.array_equal(read_audio(copies.shards, index, row, 0.1), want[key[0]][:, :4_800])
            with audio_shard(copies.shards, entry.path) as shard:
                for clip in shard.clips:
                    part = read_clip(clip, AudioForm(RATE, 1), 500, 2_000)
                    assert np.array_equal(part, want[clip.key[0]][:, 500:2_000])


def test_a_long_clip_is_decoded_once_for_all_of_its_ranges(copies, monkeypatch):
    monkeypatch.setattr(encoding_sources, "_LONG_SECONDS", 0.1)
    calls = []
    decode_into = clips.decode_into
    monkeypatch.setattr(clips, "decode_into", lambda *given: (calls.append(1), decode_into(*given)))
    want = {name: decode(blob)[0] for name, (_, blob) in audio_of(copies).items()}
    num_lossy = sum(extension != "flac" for extension, _ in audio_of(copies).values())
    num_flac = 0
    for entry in copies.shards.list():
        if entry.path.endswith(".tar"):
            with audio_shard(copies.shards, entry.path) as shard:
                for clip in shard.clips:
                    num_flac += clip.decoded is None
                    for start in (0, 3_000, 6_000):
                        part = read_clip(clip, AudioForm(RATE, 1), start, start + 3_000)
                        assert np.array_equal(part, want[clip.key[0]][:, start : start + 3_000])
    assert len(calls) == num_lossy + 3 * num_flac


@pytest.mark.medium
def test_opus_is_built_read_and_built_again_with_the_same_bytes(tmp_path):
    project = project_of(tmp_path / "one", Codec.OPUS)
    check(project, project.build())
    assert {extension for extension, _ in audio_of(project).values()} == {"opus"}
    assert {sample["audio"].shape[1] for sample in delivered(project).values()} == set(range(12_000, 18_000, 1_000))
    again = Project(tmp_path / "two", layout=ONE, audio=project.audio, source_uri=tmp_path / "one" / "source")
    again.build()
    tars = {path: blob for path, blob in project.files().items() if path.endswith((".tar", ".idx"))}
    assert tars.items() <= again.files().items()


@pytest.mark.medium
def test_a_damaged_recording_is_rejected_and_not_copied(tmp_path):
    project = project_of(tmp_path, Codec.COPY)
    data = bytearray((tmp_path / "source" / "e.bin").read_bytes())
    data[-20] ^= 0x55
    (tmp_path / "source" / "e.bin").write_bytes(data)
    result = check(project, project.build())
    (refused,) = [refusal for build in result.partitions.values() for refusal in build.manifest.manifest.refused]
    assert refused.path == "e.bin"
    assert audio_of(project).keys() == KINDS.keys() - {"e"}


@pytest.mark.medium
def test_a_shard_has_at_most_its_planned_bytes(tmp_path):
    project = Project(tmp_path, layout=ONE, size=ShardSize(bytes_per_shard=2_500))
    for number in range(12):
        project.put(f"r{number}.wav", num_frames=300 + 50 * number)  # 600 to 1,700 planned bytes
    project.put("long.wav", num_frames=4_000)
    result = check(project, project.build())
    sizes = []
    for build in result.partitions.values():
        assert build.manifest.manifest.layout == {"bytes_per_shard": 2_500}
        for shard in build.manifest.manifest.shards:
            index = read_index(project.shards, shard.name)
            sizes.append((2 * int(index.num_frames.sum()), len(index)))
    assert sum(count for _, count in sizes) == 13
    assert all(size <= 2_500 or count == 1 for size, count in sizes)
    assert len(sizes) < 13
    project.put("new.wav")
    again = check(project, project.build())
    assert len(again.written) == 1


@pytest.mark.parametrize("digests", ["read", "store"])
@pytest.mark.parametrize("codec", [Codec.COPY, Codec.FLAC])
def test_recordings_behind_a_tag_are_written_whole_as_flac(tmp_path, digests, codec):
    """Libsndfile counts frames behind a tag differently in a file and in memory."""
    project = Project(tmp_path, layout=ONE, audio=AudioFormat(codec=codec), asked={"digests": digests})
    source = open_storage("memory://")
    sounds = {name: file_of(music(12_000, 1, RATE), name.upper(), "PCM_16", RATE) for name in ("wav", "aiff", "flac")}
    for name, sound in sounds.items():
        source.write(f"{name}.bin", TAG + sound)
    with mock.patch("tests.support.builds.open_source", return_value=BucketSource(source, digests=Digests(digests))):
        check(project, project.build())
    assert verify(find_target(project.shards.uri), Depth(1, 3)).faults == []
    dataset = StreamingDataset(remote=project.shards.uri, batch_size=1)
    streamed = {sample["__key__"]: sample["audio"].numpy() for sample in dataset}
    assert len(streamed) == len(sounds)
    for key, audio in streamed.items():
        np.testing.assert_array_equal(audio, decode(sounds[key.partition("-")[0]])[0])
    assert all(name.endswith((".flac", ".json")) for name in members(project))
