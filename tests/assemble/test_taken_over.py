"""Audio that is copied from existing shards: when captions change, keys change, or all shards are arranged again."""

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headrace.assemble.audio import build_partition
from headrace.assemble.audio_counts import AudioCounts
from headrace.assemble.shard_settings import ShardSettings
from headrace.assemble.taken_over import audio_digest
from headrace.audio import AudioFormat, Codec, Segment, decode
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.format.indexes.index_files import read_index
from headrace.sources.sources import open_source
from tests.support.builds import PLAIN, Project, check
from tests.support.sounds import file_of, music

ONE = Partitioning({"train": 1.0}, {"train": 1}, 4)
NUM_CLIPS = 12


def captions(changed=()):
    names = [f"r{number:02d}.wav" for number in range(NUM_CLIPS)]
    return pl.DataFrame({"path": names, "caption": ["new" if name in changed else "old" for name in names]})


def project_of(folder, codec=Codec.FLAC, **settings):
    audio = AudioFormat(codec=codec, **settings)
    project = Project(folder, layout=ONE, audio=audio, metadata=captions())
    for number in range(NUM_CLIPS):
        project.put(f"r{number:02d}.wav", num_frames=300 + number)
    return project


@pytest.fixture
def project(tmp_path):
    made = project_of(tmp_path)
    assert counts(check(made, made.build())) == AudioCounts(num_encoded=NUM_CLIPS)
    return made


def counts(result):
    (build,) = result.partitions.values()
    return build.audio


def rebuilt(project, *, reads=False, **changes):
    """Scan the source, then build the partition; unless it `reads` recordings, their folder is renamed meanwhile."""
    folder = project.folder / "source"
    _, _ = update_catalog(project.config(), open_source(project.folder / "source"), project.metadata, project.output)
    recordings = partition_recordings(project.output, project.config(), "train-0000")
    size = changes.pop("size", ShardSize(4))
    wanted = ShardSettings(changes.pop("audio", project.audio), size, changes.pop("reshuffle", project.reshuffle))
    source, hidden = open_source(folder), project.folder / "renamed"
    folder.rename(folder if reads else hidden)
    try:
        return build_partition("train-0000", recordings, wanted, source, project.shards, num_threads=2)
    finally:
        (folder if reads else hidden).rename(folder)


def sounds(project, build):
    """Key → member and bytes of the audio of each sample in the shards of a build."""
    found = {}
    for shard in build.manifest.manifest.shards:
        index = read_index(project.shards, shard.name)
        for row, key in enumerate(index.keys()):
            span = index.audio_range(row)
            found[key] = project.shards.read_ranges(shard.name, [span])[0]
    return found


@pytest.mark.medium
def test_a_changed_caption_rewrites_one_shard_and_opens_no_recording(project):
    (before,) = project.build().partitions.values()
    project.metadata = captions({"r03.wav"})
    after = rebuilt(project)
    assert after.audio == AudioCounts(num_taken_over=4)
    assert (len(after.written), len(after.reused)) == (1, 2)
    assert sounds(project, after) == sounds(project, before)
    assert b'"new"' in project.shards.read(after.written[0])


@pytest.mark.medium
def test_the_bytes_are_those_of_a_build_from_nothing(project, tmp_path):
    project.metadata = captions({"r03.wav", "r07.wav"})
    check(project, project.build())
    fresh = Project(tmp_path / "fresh", layout=ONE, metadata=project.metadata, source_uri=project.folder / "source")
    fresh.build()
    mine = {path for path in project.files() if path.endswith(".tar")}
    assert {path for path in fresh.files() if path.endswith(".tar")} <= mine


@pytest.mark.medium
@pytest.mark.parametrize("size", [ShardSize(5), ShardSize(bytes_per_shard=2_000)])
def test_shards_of_another_size_are_copied(project, size):
    (before,) = project.build().partitions.values()
    after = rebuilt(project, size=size)
    assert after.audio == AudioCounts(num_taken_over=NUM_CLIPS)
    assert sounds(project, after) == sounds(project, before)


@pytest.mark.medium
def test_a_reshuffle_copies(project):
    project.remove("r02.wav")
    project.put("more.wav", num_frames=123)
    after = rebuilt(project, reads=True, reshuffle=1)
    written = sum(shard.num_samples for shard in after.manifest.manifest.shards if shard.name in after.written)
    assert after.audio == AudioCounts(num_encoded=1, num_taken_over=written - 1)


@pytest.mark.medium
def test_samples_under_other_keys_are_copied(project):
    table = captions().with_columns(name=pl.format("k{}", pl.int_range(pl.len())))
    project.metadata = table
    (before,) = project.build().partitions.values()
    config = project.config()
    keyed = {"uri": config.source.uri, "metadata": "table.csv", "settle_seconds": 0, "columns": {"key": "name"}}
    source = config.source.model_validate(keyed)
    project.config = lambda: config.model_copy(update={"source": source})
    after = rebuilt(project)
    assert after.audio == AudioCounts(num_taken_over=NUM_CLIPS)
    assert sorted(sounds(project, after)) == sorted(table["name"])
    assert sorted(sounds(project, after).values()) == sorted(sounds(project, before).values())


@pytest.mark.medium
def test_changed_audio_is_encoded_and_its_neighbours_are_copied(project):
    project.put("r03.wav", seed="other", num_frames=500)
    assert counts(check(project, project.build())) == AudioCounts(num_encoded=1, num_taken_over=3)


@pytest.mark.medium
def test_other_audio_settings_encode_all(project):
    assert rebuilt(project, reads=True, audio=replace(PLAIN, sample_rate_hz=16_000)).audio == AudioCounts(NUM_CLIPS)
    assert rebuilt(project, reads=True, audio=replace(PLAIN, codec=Codec.COPY)).audio == AudioCounts(
        num_as_recorded=NUM_CLIPS
    )


@pytest.mark.medium
def test_settings_that_leave_the_audio_as_it_is_copy_all(project):
    """The recordings have this rate and these channels, and are shorter than a segment."""
    same = replace(PLAIN, sample_rate_hz=8_000, num_channels=1, bits_per_sample=16)
    assert rebuilt(project, audio=same).audio == AudioCounts(num_taken_over=NUM_CLIPS)


@pytest.mark.medium
@pytest.mark.parametrize("codec", [Codec.OPUS, Codec.COPY])
def test_other_codecs_are_taken_over_too(tmp_path, codec):
    project = project_of(tmp_path, codec, sample_rate_hz=8_000)
    (before,) = check(project, project.build()).partitions.values()
    project.metadata = captions({"r03.wav"})
    after = rebuilt(project)
    assert after.audio == AudioCounts(num_taken_over=4)
    assert sounds(project, after) == sounds(project, before)


def test_opus_under_another_key_is_encoded_because_its_serial_number_is_that_of_the_key(tmp_path):
    recording = partition_of(project_of(tmp_path, Codec.OPUS, sample_rate_hz=8_000))[0]
    segment = Segment(0, 0, recording.info.num_frames)
    for codec, depends in ((Codec.OPUS, True), (Codec.FLAC, False)):
        audio = AudioFormat(codec=codec)
        same = audio_digest("a", recording, segment, audio) == audio_digest("b", recording, segment, audio)
        assert same is not depends


def partition_of(project):
    update_catalog(project.config(), open_source(project.folder / "source"), project.metadata, project.output)
    return partition_recordings(project.output, project.config(), "train-0000")


@pytest.mark.medium
def test_segments_are_copied_one_by_one(tmp_path):
    project = project_of(tmp_path, segment_seconds=0.01)
    (before,) = check(project, project.build()).partitions.values()
    project.metadata = captions({"r03.wav"})
    after = rebuilt(project)
    assert (after.audio.num_encoded, after.audio.num_taken_over > 0) == (0, True)
    assert sounds(project, after) == sounds(project, before)


def damage(project, before):
    """Flip a bit in the audio of r03. Returns the number of samples in its shard."""
    for shard in before.manifest.manifest.shards:
        index = read_index(project.shards, shard.name)
        rows = [row for row, key in enumerate(index.keys()) if key.startswith("r03")]
        if rows:
            path = project.shards.local_path(shard.name)
            blob = bytearray(path.read_bytes())
            blob[index.audio_range(rows[0])[1] - 10] ^= 1
            path.write_bytes(blob)
            return len(index)
    raise AssertionError("no shard has it")


@pytest.mark.medium
def test_damaged_bytes_are_not_copied_but_encoded_again(project):
    (before,) = project.build().partitions.values()
    want = sounds(project, before)
    size = damage(project, before)
    project.metadata = captions({"r03.wav"})
    after = rebuilt(project, reads=True)
    assert after.audio == AudioCounts(num_encoded=size)
    assert sounds(project, after) == want


@pytest.mark.medium
def test_beside_a_damaged_shard_the_others_are_copied(project):
    (before,) = project.build().partitions.values()
    want = sounds(project, before)
    size = damage(project, before)
    project.metadata = captions({f"r{number:02d}.wav" for number in range(NUM_CLIPS)})
    after = rebuilt(project, reads=True)
    assert after.audio == AudioCounts(num_encoded=size, num_taken_over=NUM_CLIPS - size)
    assert sounds(project, after) == want


def test_without_the_file_of_planned_keys_all_is_encoded(project):
    for entry in project.shards.list("manifests/"):
        if entry.path.endswith(".keys"):
            project.shards.delete(entry.path)
    project.metadata = captions({"r03.wav"})
    assert rebuilt(project, reads=True).audio == AudioCounts(num_encoded=4)


def test_a_rejected_recording_stays_rejected(tmp_path):
    project = project_of(tmp_path)
    data = bytearray(file_of(music(500, rate_hz=8_000), "FLAC", rate_hz=8_000))
    data[-20] ^= 0x55
    (tmp_path / "source" / "bad.flac").write_bytes(data)
    check(project, project.build())
    project.metadata = captions({f"r{number:02d}.wav" for number in range(NUM_CLIPS)})
    result = check(project, project.build())
    (build,) = result.partitions.values()
    assert [refusal.path for refusal in build.manifest.manifest.refused] == ["bad.flac"]
    assert build.audio == AudioCounts(num_taken_over=NUM_CLIPS)


@pytest.mark.medium
@given(
    st.lists(
        st.tuples(st.sampled_from(["put", "remove", "caption", "size"]), st.integers(0, 5), st.integers(1, 4)),
        max_size=5,
    )
)
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_in_any_history_the_audio_is_that_of_the_recordings(tmp_path_factory, steps):
    folder = tmp_path_factory.mktemp("history")
    project = Project(folder, layout=ONE)
    table = {f"r{number}.wav": "old" for number in range(4)}
    for number in range(4):
        project.put(f"r{number}.wav", num_frames=50 + number)
    for step, which, how in [("size", 0, 4), *steps]:
        name = f"r{which}.wav"
        if step == "put":
            project.put(name, seed=f"{name}{how}", num_frames=40 + how)
            table.setdefault(name, "old")
        elif step == "remove" and name in table and len(table) > 1:
            project.remove(name)
            del table[name]
        elif step == "caption" and name in table:
            table[name] = f"caption {how}"
        elif step == "size":
            project.size = ShardSize(how)
        project.metadata = pl.DataFrame({"path": list(table), "caption": list(table.values())})
        (build,) = check(project, project.build()).partitions.values()
        found = {key.partition("-")[0]: blob for key, blob in sounds(project, build).items()}
        assert len(found) == len(table)
        for path in table:
            flac, _ = decode(found[path.removesuffix(".wav")])
            wav, _ = decode((folder / "source" / path).read_bytes())
            assert np.array_equal(flac, wav)
