"""Recordings that are damaged, concatenated, or longer than their headers say are complete in shards, or rejected."""

import io
import json
import os

import pytest
import soundfile as sf

from headrace.assemble import audio as audio_shards
from headrace.assemble import encoding_tasks
from headrace.audio import AudioFormat
from headrace.catalog.stored.parts import read_catalog
from headrace.errors import BuildError
from headrace.format.indexes.index import index_name
from headrace.format.indexes.index_files import parse_index
from headrace.format.tars.tar import payload
from tests.support.builds import Project, check
from tests.support.mpegs import mp3_of
from tests.support.sounds import file_of, music

pytestmark = pytest.mark.medium


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def put(project, name, data):
    (project.folder / "source" / name).write_bytes(data)


def written(project, result):
    """Frames of each recording's samples in the shards, by its path, decoded by a reference decoder."""
    found = {}
    for shard in result.contents:
        index = parse_index(project.shards.read(index_name(shard)), shard)
        with project.shards.open(shard) as file:
            for i in range(len(index)):
                source = json.loads(payload(file, index.range_of(i, "json")))["headrace"]["source"]
                frames = sf.info(io.BytesIO(payload(file, index.range_of(i, "flac")))).frames
                found[source] = found.get(source, 0) + frames
    return found


def refused(result):
    return {
        refusal.path: refusal for build in result.partitions.values() for refusal in build.manifest.manifest.refused
    }


@pytest.mark.parametrize("audio", [AudioFormat(), AudioFormat(segment_seconds=0.7)])
def test_shards_contain_every_frame_that_the_catalog_counts(project, audio):
    project.audio = audio
    mp3, vorbis = mp3_of(60_000), file_of(music(50_000), "OGG", "VORBIS")
    put(project, "sound.mp3", mp3.data)
    put(project, "headerless.mp3", mp3.frames)
    put(project, "wrong.mp3", mp3.promising(10))
    put(project, "joined.mp3", mp3.data + mp3_of(45_000, seed=1).data)
    put(project, "chained.ogg", vorbis + file_of(music(30_000), "OGG", "VORBIS"))
    result = check(project, project.build())
    want = {
        "sound.mp3": 60_000,
        "headerless.mp3": mp3.num_frames * 1152,
        "wrong.mp3": 60_000,
        "joined.mp3": 105_000,
        "chained.ogg": 80_000,
    }
    catalog = read_catalog(project.output).whole()
    assert dict(catalog.recordings.select("path", "num_frames").iter_rows()) == want
    assert written(project, result) == want
    assert catalog.rejected.height == 0


def test_damaged_ogg_is_rejected_by_the_scan_with_the_position(project):
    data = bytearray(file_of(music(50_000), "OGG", "VORBIS"))
    data[len(data) // 2] ^= 1
    put(project, "broken.ogg", bytes(data))
    project.put("whole.wav")
    project.build()
    ((path, code, reason),) = read_catalog(project.output).rejected().select("path", "code", "reason").iter_rows()
    assert (path, code) == ("broken.ogg", "undecodable")
    assert "checksum is wrong at byte" in reason


@pytest.mark.parametrize("num_threads", [1, 3])
def test_flac_with_a_wrong_md5_is_rejected_as_a_whole_for_any_number_of_tasks(project, num_threads, monkeypatch):
    monkeypatch.setattr(encoding_tasks, "TASK_SECONDS", 1.0)
    data = file_of(music(300_000), "FLAC")
    put(project, "false.flac", data[:26] + bytes(range(16)) + data[42:])
    put(project, "true.flac", data)
    project.audio, project.num_threads = AudioFormat(segment_seconds=0.4), num_threads
    result = check(project, project.build())
    assert written(project, result) == {"true.flac": 300_000}
    assert "MD5" in refused(result)["false.flac"].reason
    assert project.build().written == []


def test_long_flac_that_is_damaged_in_one_place_is_rejected_as_a_whole(project, monkeypatch):
    monkeypatch.setattr(encoding_tasks, "TASK_SECONDS", 1.0)
    data = bytearray(file_of(music(300_000), "FLAC"))
    data[len(data) // 2] ^= 1
    put(project, "broken.flac", bytes(data))
    project.put("whole.wav", num_frames=8_000)
    project.audio = AudioFormat(segment_seconds=0.4)
    result = project.build()
    assert written(project, result) == {"whole.wav": 8_000}
    assert refused(result)["broken.flac"].code == "undecodable"


@pytest.mark.timeout(120)
def test_special_files_are_rejected_and_do_not_stop_the_scan(project):
    project.put("whole.wav")
    source = project.folder / "source"
    os.mkfifo(source / "pipe.wav")
    (source / "gone.wav").symlink_to("nowhere.wav")
    (source / "to_pipe.wav").symlink_to("pipe.wav")
    assert list(written(project, project.build())) == ["whole.wav"]
    rejected = dict(read_catalog(project.output).rejected().select("path", "reason").iter_rows())
    assert "a pipe, socket or device" in rejected["pipe.wav"]
    assert "a pipe, socket or device" in rejected["to_pipe.wav"]
    assert "cannot be read" in rejected["gone.wav"]


@pytest.mark.timeout(120)
def test_a_pipe_that_replaces_a_recording_fails_the_build_with_its_name(project, monkeypatch):
    project.put("whole.wav")
    path = project.folder / "source" / "whole.wav"
    planned = audio_shards.planned_samples

    def replaced(*arguments):
        path.unlink()
        os.mkfifo(path)
        return planned(*arguments)

    monkeypatch.setattr(audio_shards, "planned_samples", replaced)
    with pytest.raises(BuildError, match=r"whole\.wav: .*not a regular file but a pipe"):
        project.build()
