"""Unusual sources: recordings that give no sample, and unusual names and tables."""

import io
import json
import tarfile
from dataclasses import replace

import polars as pl
import pytest

from headrace.audio import AudioFormat
from headrace.catalog.rows.metadata_columns import json_values
from headrace.catalog.rows.schemas import OWN_COLUMNS
from headrace.catalog.stored.parts import read_catalog
from headrace.catalog.tables.metadata_files import read_metadata
from headrace.errors import BuildError
from headrace.format.manifests.manifests import ManifestRejection, NumberedManifest, keys_path
from headrace.format.manifests.planned_keys import digest_of, pack_keys, read_planned_keys
from headrace.format.rejects import RejectReason
from headrace.verification.audit import conservation_faults
from tests.support.builds import Project


@pytest.fixture
def project(tmp_path):
    return Project(tmp_path)


def rejects(result):
    """Code and reason of the rejects of all partitions, by path."""
    manifests = [build.manifest.manifest for build in result.partitions.values()]
    return {refusal.path: (refusal.code, refusal.reason) for found in manifests for refusal in found.refused}


def test_recordings_shorter_than_a_segment_are_rejected_if_the_last_part_is_dropped(project):
    project.audio = AudioFormat(segment_seconds=0.05, last_segment="drop")
    project.put("long.wav", num_frames=400)
    project.put("short.wav", num_frames=399)
    result = project.build()
    code, reason = rejects(result)["short.wav"]
    assert code == RejectReason.TOO_SHORT
    assert "399 frames at 8000 Hz" in reason
    assert "segment_seconds: 0.05" in reason
    assert result.snapshot.snapshot.num_samples == 1
    for build in result.partitions.values():
        assert conservation_faults(project.shards, build.manifest) == []


def test_a_reject_does_not_hide_another_loss(project):
    project.audio = AudioFormat(segment_seconds=0.05)
    project.put("whole.wav", num_frames=1000)
    project.put("broken.wav", num_frames=1000)
    builds = project.build().partitions.values()
    built = next(build.manifest for build in builds if build.manifest.manifest.shards)
    manifest, planned = built.manifest, read_planned_keys(project.shards, built)

    def faults(*lost, num_refused):
        keys = pack_keys([[*planned[0], *lost]])
        refused = (ManifestRejection("broken.wav", "undecodable", "as a test"),) * num_refused
        changed = replace(manifest, shards=manifest.shards[:1], refused=refused, keys=digest_of(keys))
        project.shards.write(keys_path(changed.partition, built.number, changed.keys), keys)
        return conservation_faults(project.shards, NumberedManifest(built.number, changed))

    assert faults("lost-s000000", "lost-s000001", num_refused=1) == []
    assert "1 planned samples of 1 recordings are not written, 0" in faults("a-s000000", num_refused=0)[0]
    assert "2 planned samples of 2 recordings are not written, 1" in faults("a-s000000", "b-s000000", num_refused=1)[0]
    assert "0 planned samples of 0 recordings are not written, 1" in faults(num_refused=1)[0]


@pytest.mark.medium
def test_a_recording_that_has_no_frame_after_resampling_is_rejected(project):
    project.audio = AudioFormat(sample_rate_hz=8000)
    project.put("tick.wav", num_frames=1, rate=48_000)
    project.put("long.wav")
    code, reason = rejects(project.build())["tick.wav"]
    assert code == RejectReason.TOO_SHORT
    assert "no frame at 8000 Hz" in reason


@pytest.mark.medium
def test_a_recording_whose_rate_is_too_low_for_a_segment_does_not_stop_the_others(project):
    project.audio = AudioFormat(segment_seconds=0.05)
    project.put("slow.wav", rate=1)
    project.put("usual.wav")
    result = project.build()
    assert list(rejects(result)) == ["slow.wav"]
    assert result.snapshot.snapshot.num_samples == 1


@pytest.mark.medium
def test_a_build_without_any_sample_fails_and_readers_keep_the_old_snapshot(project):
    project.put("a.wav")
    before = project.build().snapshot
    project.audio = AudioFormat(segment_seconds=10.0, last_segment="drop")
    with pytest.raises(
        BuildError, match=r"no recording gives a sample.*1 .* rejected: a\.wav: the recording's 400 frames"
    ):
        project.build()
    project.audio = AudioFormat(segment_seconds=0.05)
    assert project.build().snapshot.number == before.number + 1
    assert read_catalog(project.output).recordings().height == 1


def sidecars(project):
    """The JSON of every sample, by its source."""
    found = {}
    for name, data in project.files().items():
        if name.endswith(".tar"):
            with tarfile.open(fileobj=io.BytesIO(data)) as tar:
                for member in tar:
                    if member.name.endswith(".json"):
                        content = json.loads(tar.extractfile(member).read())
                        found[content["headrace"]["source"]] = content
    return found


@pytest.mark.medium
def test_metadata_columns_may_have_names_that_are_used_internally(project):
    names = [*sorted(OWN_COLUMNS - {"path", "key"}), "metadata_row", "metadata_code", "code_right", "split", "row"]
    project.put("a.wav")
    project.put("b.wav")
    columns = {name: [[1, i], [3]] for i, name in enumerate(names)}
    project.metadata = pl.DataFrame({"path": ["a.wav", "gone.wav"], **columns})
    project.build()
    found = sidecars(project)
    assert {name: found["a.wav"][name] for name in names} == {name: [1, i] for i, name in enumerate(names)}
    assert set(found["a.wav"]) == {*names, "headrace"}
    assert {found["b.wav"][name] for name in names} == {None}


def test_nan_in_json_lines_becomes_null_in_the_json_of_samples(tmp_path):
    table = tmp_path / "metadata.jsonl"
    table.write_text(
        '{"path": "a.wav", "level": NaN}\n\n{"path": "b.wav", "level": -Infinity}\n{"path": "c.wav", "level": 1.5}\n'
    )
    assert json_values(read_metadata(table)["level"]) == [None, None, 1.5]
