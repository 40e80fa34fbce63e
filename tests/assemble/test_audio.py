import io
import json
import threading
from dataclasses import replace

import pytest
import soundfile

from headrace.assemble import audio as shards
from headrace.audio import AudioFormat
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.errors import AlreadyExistsError, BuildError
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import parse_index
from headrace.format.manifests.manifests import newest_manifest
from headrace.format.snapshots.snapshots import read_snapshot
from headrace.format.tars.tar import payload
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.builds import PLAIN, Project, check, twenty_clips

pytestmark = pytest.mark.medium


@pytest.fixture
def project(tmp_path):
    return twenty_clips(tmp_path)


def numbers_of(result):
    """Number of the manifest of each partition."""
    return {name: build.manifest.number for name, build in result.partitions.items()}


def samples(project, result):
    """PCM and JSON of every sample by key, read with the indexes."""
    found = {}
    for name in result.contents:
        index = parse_index(project.shards.read(index_name(name)), name)
        with project.shards.open(name) as file:
            for i, key in enumerate(index.keys()):
                pcm, _ = soundfile.read(io.BytesIO(payload(file, index.range_of(i, "flac"))), dtype="int16")
                found[key] = pcm, json.loads(payload(file, index.range_of(i, "json")))
    return found


def test_every_recording_becomes_a_sample_with_bit_exact_audio_and_its_provenance(project):
    result = check(project, project.build())
    found = samples(project, result)
    assert len(found) == 20
    for key, (pcm, described) in found.items():
        name = f"{key.split('-')[0]}.wav"
        wanted, _ = soundfile.read(project.folder / "source" / name, dtype="int16")
        assert (pcm == wanted).all()
        provenance = described["headrace"]
        assert provenance["source"] == name
        assert provenance["start_frame"] == 0
        assert provenance["num_frames"] == len(pcm)
        assert (provenance["sample_rate"], provenance["num_channels"]) == (8000, 1)
        assert len(provenance["source_sha256"]) == 64


@pytest.mark.parametrize("num_threads", [1, 2, 7])
def test_names_and_bytes_do_not_depend_on_the_folder_or_the_number_of_threads(project, tmp_path, num_threads):
    project.build()
    again = Project(tmp_path / "elsewhere", num_threads=num_threads)
    for number in reversed(range(20)):
        again.put(f"clip{number:02d}.wav", num_frames=300 + number)
    again.build()
    assert again.files() == project.files()


def test_names_and_bytes_do_not_depend_on_the_store(project, tmp_path):
    memory = Project(tmp_path, output=open_storage("memory://"))
    memory.build()
    project.build()
    assert memory.files() == project.files()


def test_a_second_build_does_nothing(project):
    first = project.build()
    before = project.files()
    second = project.build()
    assert (second.written, second.is_new) == ([], False)
    assert numbers_of(second) == numbers_of(first)
    assert second.snapshot == first.snapshot
    assert project.files() == before


def test_a_touched_file_rewrites_no_shard(project):
    project.build()
    before = project.files()
    project.put("clip03.wav", num_frames=303)  # the same content with a new time
    assert project.build().written == []
    assert project.files() == before


def test_a_changed_recording_rewrites_only_its_own_shard(project):
    before = project.build()
    project.put("clip03.wav", seed="other")
    after = check(project, project.build())
    assert after.written == [after.shard_of("clip03")]
    assert set(before.contents) - set(after.contents) == {before.shard_of("clip03")}
    assert before.contents[before.shard_of("clip03")] == after.contents[after.shard_of("clip03")]


def test_a_deleted_recording_rewrites_only_its_own_shard(project):
    before = project.build()
    project.remove("clip03.wav")
    after = check(project, project.build())
    old = before.shard_of("clip03")
    assert set(before.contents) - set(after.contents) == {old}
    rest = tuple(key for key in before.contents[old] if not key.startswith("clip03"))
    assert [after.contents[name] for name in after.written] == ([rest] if rest else [])


def test_an_added_recording_writes_one_shard(project):
    before = project.build()
    project.put("new.wav")
    after = check(project, project.build())
    assert after.written == [after.shard_of("new")]
    assert len(set(before.contents) - set(after.contents)) <= 1


def test_a_renamed_recording_rewrites_at_most_two_shards(project):
    """The path is the group, so another name may be in another partition."""
    before = project.build()
    (project.folder / "source" / "clip03.wav").rename(project.folder / "source" / "renamed.wav")
    after = check(project, project.build())
    touched = {before.shard_of("clip03"), *(set(before.contents) - set(after.contents))}
    assert after.shard_of("renamed") in after.written
    assert len(after.written) <= 2
    assert len(touched) <= 2


@pytest.mark.parametrize("count", [1000, pytest.param(3000, marks=pytest.mark.slow)])
def test_one_changed_file_of_thousands_rewrites_one_shard(tmp_path, count):
    project = Project(tmp_path, layout=Partitioning({"train": 1.0}, {"train": 4}, 50))
    for number in range(count):
        project.put(f"{number // 100:03d}/{number}.wav", num_frames=40)
    before = project.build()
    project.put("004/424.wav", seed="changed", num_frames=40)
    after = project.build()
    assert after.written == [after.shard_of("004_424")]
    assert len(set(before.contents) ^ set(after.contents)) == 2
    assert len(numbers_of(before).items() & numbers_of(after).items()) == 3


def test_metadata_is_at_the_top_level_of_the_json_and_a_change_rewrites_its_shard(project):
    import polars as pl

    def table(title):
        return pl.DataFrame({"path": ["clip03.wav"], "title": [title], "chords": [[1, 2, 3]]})

    project.metadata = table("Dawn")
    before = project.build()
    found = {key.split("-")[0]: described for key, (_, described) in samples(project, before).items()}
    assert found["clip03"]["title"] == "Dawn"
    assert found["clip03"]["chords"] == [1, 2, 3]
    project.metadata = table("Dusk")
    assert project.build().written == [project.build().shard_of("clip03")]


def test_a_file_that_fails_to_decode_is_rejected_and_all_others_are_written(project):
    sound = project.folder / "source" / "broken.flac"
    soundfile.write(sound, [0.1, -0.3, 0.2] * 9000, 8000, format="FLAC")
    blob = bytearray(sound.read_bytes())
    blob[len(blob) // 2] ^= 0xFF
    sound.write_bytes(bytes(blob))
    result = check(project, project.build())
    (refusal,) = [refusal for build in result.partitions.values() for refusal in build.manifest.manifest.refused]
    assert refusal.path == "broken.flac"
    assert refusal.code in {"undecodable", "truncated"}
    assert result.snapshot.snapshot.num_samples == 20
    assert project.build().written == []


def test_segments_are_samples_with_a_start(project):
    project.audio = replace(PLAIN, segment_seconds=0.01)
    result = check(project, project.build())
    found = samples(project, result)
    parts = sorted(key for key in found if key.startswith("clip05-"))
    assert [found[key][1]["headrace"]["start_frame"] for key in parts] == [0, 80, 160, 240]
    assert [found[key][1]["headrace"]["num_frames"] for key in parts] == [80, 80, 80, 65]
    assert parts[1].endswith("-s000001")


def test_index_and_provenance_show_resampling_and_mixing(project):
    project.put("stereo.wav", channels=2, num_frames=1000)
    project.audio = AudioFormat(4000, 1, 16)
    result = check(project, project.build())
    found = {key.split("-")[0]: value for key, value in samples(project, result).items()}
    pcm, described = found["stereo"]
    assert pcm.shape == (500,)
    assert described["headrace"]["sample_rate"] == 4000


def test_an_empty_source_gives_an_empty_snapshot(tmp_path):
    result = Project(tmp_path).build()
    assert result.contents == {}
    assert result.snapshot.snapshot.num_samples == 0


def test_a_build_after_a_crash_reuses_finished_shards_and_gives_the_same_bytes(project, tmp_path):
    """The build is killed between any two writes: at the nth write, for every n."""
    whole = Project(tmp_path, output=LocalStorage(tmp_path / "undisturbed"))
    whole.build()
    wanted = whole.files()
    for survived in range(0, len(wanted), 3):
        folder = tmp_path / f"killed{survived}"
        mortal = Mortal(LocalStorage(folder), survived)
        with pytest.raises(Killed):
            Project(tmp_path, output=mortal).build()
        left = {entry.path for entry in LocalStorage(folder).list("audio/")}
        try:
            read_snapshot(LocalStorage(folder).at("audio"))
        except FileNotFoundError:
            pass
        else:
            assert len(left) >= len(wanted) - 1
        again = Project(tmp_path, output=LocalStorage(folder))
        again.build()
        assert again.files() == wanted


class Killed(BaseException):
    """The process was killed."""


class Mortal:
    """A store that raises after a number of writes below audio/."""

    def __init__(self, storage, lives, counter=None):
        self.storage, self.counter = storage, counter or [lives]

    def __getattr__(self, name):
        return getattr(self.storage, name)

    def at(self, folder):
        return Mortal(self.storage.at(folder), 0, self.counter)

    def write(self, path, data):
        self._count(path)
        self.storage.write(path, data)

    def create(self, path, data):
        self._count(path)
        self.storage.create(path, data)

    def _count(self, path):
        if not path.startswith("catalog"):
            if self.counter[0] == 0:
                raise Killed
            self.counter[0] -= 1


def test_a_shard_whose_index_is_missing_or_damaged_is_made_again_with_the_same_bytes(project):
    result = project.build()
    wanted = project.files()
    name = result.shard_of("clip03")
    for damage in (
        lambda: project.shards.delete(index_name(name)),
        lambda: project.shards.write(index_name(name), b"garbage"),
        lambda: project.shards.delete(name),
        lambda: project.shards.write(name, wanted[name][:-512]),
    ):
        damage()
        project.build()
        assert project.shards.exists(name)
    project.put("clip03.wav", seed="other")
    project.build()
    project.put("clip03.wav", num_frames=303)
    project.build()
    assert project.shards.read(name) == wanted[name]


def test_the_error_about_a_recording_that_changed_since_the_scan_names_it(project, monkeypatch):
    from tests.support import builds

    scan = builds.update_catalog

    def scan_then_change(*arguments):
        found = scan(*arguments)
        project.put("clip07.wav", seed="changed behind our back", num_frames=999)
        return found

    monkeypatch.setattr(builds, "update_catalog", scan_then_change)
    with pytest.raises(BuildError, match=r"clip07\.wav: the file changed since the catalog was scanned; build again"):
        project.build()
    monkeypatch.undo()
    check(project, project.build())


def test_two_concurrent_builds_end_with_one_consistent_state(project, tmp_path):
    start, errors = threading.Barrier(2), []

    def build():
        try:
            start.wait()
            Project(tmp_path).build()
        except (AlreadyExistsError, BuildError) as error:
            errors.append(error)

    threads = [threading.Thread(target=build) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) < 2
    check(project, project.build())
    for partition in project.layout.partition_keys():
        assert newest_manifest(project.shards, partition) is not None


def test_progress_counts_every_sample_once(project):
    from headrace.assemble.audio import build_partition
    from headrace.assemble.shard_settings import ShardSettings
    from headrace.catalog.stored.partitions import recordings_of
    from headrace.catalog.stored.parts import existing_catalog
    from headrace.sources.sources import open_source

    project.build()
    rows = existing_catalog(project.output).recordings()
    seen = []
    build_partition(
        "train-0000",
        recordings_of(rows),
        ShardSettings(PLAIN, ShardSize(4)),
        open_source(project.folder / "source"),
        open_storage("memory://"),
        num_threads=2,
        progress=seen.append,
    )
    assert sum(seen) == 20


def test_the_error_about_a_recording_removed_during_the_build_says_what_to_do(project, monkeypatch):
    planned = shards.planned_samples

    def after_removal(*arguments):
        found = planned(*arguments)
        for path in (project.folder / "source").iterdir():
            path.unlink()
        return found

    monkeypatch.setattr(shards, "planned_samples", after_removal)
    with pytest.raises(BuildError, match=r"clip\d+.wav: .*; was it removed\? The next build scans again"):
        project.build()
