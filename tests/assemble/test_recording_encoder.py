"""Recordings are encoded from the files that were scanned; damage is a value, a changed file an error."""

import os
from dataclasses import replace

import numpy as np
import pytest

from headrace.assemble.encoding_tasks import EncodingTask
from headrace.assemble.recording_encoder import RecordingEncoder
from headrace.audio import AudioFormat, Segment
from headrace.catalog.stored.partitions import recordings_of
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.errors import AudioError, BuildError
from headrace.sources.sources import open_source
from tests.support.builds import Project
from tests.support.sounds import file_of, integers, pcm_of

WHOLE = Segment(0, 0, 400)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "source/a.flac"


@pytest.fixture
def row(tmp_path, path):
    """A recording of 400 frames, as a scan finds it."""
    project = Project(tmp_path)
    path.write_bytes(file_of(integers(400, 1, 16), "FLAC", rate_hz=8000))
    update_catalog(project.config(), open_source(path.parent), None, project.output)
    (found,) = recordings_of(existing_catalog(project.output).recordings())
    return found


@pytest.fixture
def encoder(path, row):
    return RecordingEncoder(open_source(path.parent), AudioFormat())


def task(*samples):
    return EncodingTask(samples, 1.0)


def test_spans_are_encoded_in_the_order_in_which_they_were_wanted(row, encoder):
    (whole,) = encoder.encode(task((row, WHOLE)))
    pcm = pcm_of(whole)
    assert len(pcm) == 400
    spans = [(replace(row, start_frame=at, stop_frame=at + 50), Segment(0, 0, 50)) for at in (100, 20)]
    for found, at in zip(encoder.encode(task(*spans)), (100, 20), strict=True):
        assert np.array_equal(pcm_of(found), pcm[at : at + 50])


def test_damage_is_a_value(row, encoder):
    damaged = replace(row, info=replace(row.info, num_frames=500), stop_frame=500)
    assert encoder.fault(row) is None
    assert isinstance(encoder.fault(damaged), AudioError)
    assert isinstance(encoder.encode_alone(task((damaged, Segment(0, 0, 500)))), AudioError)


def test_a_part_of_a_recording_needs_a_check_of_the_rest(row, encoder):
    assert not encoder.needs_check(task((row, WHOLE)))
    assert encoder.needs_check(task((row, Segment(0, 0, 50))))
    damaged = replace(row, info=replace(row.info, num_frames=500), stop_frame=500)
    assert isinstance(encoder.encode_alone(task((damaged, Segment(0, 0, 50)))), AudioError)


def test_a_file_that_was_replaced_or_removed_since_the_scan_is_an_error(row, encoder, path):
    path.write_bytes(path.read_bytes()[:-2] + b"\1\2")
    os.utime(path, ns=(row.mtime_ns, row.mtime_ns))
    with pytest.raises(BuildError, match=r"a\.flac: the file changed since the catalog was scanned"):
        encoder.fault(row)
    path.unlink()
    with pytest.raises(BuildError, match=r"a\.flac: .* was it removed\?"):
        encoder.encode(task((row, WHOLE)))


def test_a_file_of_which_only_the_change_time_is_another_one_is_read(row, encoder, path):
    path.chmod(0o600)
    assert encoder.fault(row) is None


@pytest.mark.medium
def test_a_task_ends_when_nobody_waits_for_it(row, encoder):
    def stop():
        raise InterruptedError

    with pytest.raises((InterruptedError, BuildError)):
        replace(encoder, go_on=stop).encode(task((row, WHOLE)))
