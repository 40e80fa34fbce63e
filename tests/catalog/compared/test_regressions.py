"""New problems in a catalog since the last report, each of which is reported once."""

from dataclasses import replace

import polars as pl
import pytest

from headrace.audio import AudioFormat
from headrace.catalog.compared.regressions import REPORTED_PATH, find_regressions, mark_reported, stored_regressions
from headrace.catalog.stored.parts import existing_catalog
from headrace.catalog.stored.update import update_catalog
from headrace.sources.sources import open_source
from tests.support.builds import Project, write_wav

pytestmark = pytest.mark.medium


@pytest.fixture
def project(tmp_path):
    made = Project(tmp_path)
    for number in range(14):
        made.put(f"clip{number:02d}.wav", num_frames=8000)
    (tmp_path / "source/old.wav").write_bytes(b"RIFF, but no sound")
    reported(made)
    return made


def scan(project):
    return update_catalog(project.config(), open_source(project.folder / "source"), project.metadata, project.output)[0]


def look(project):
    found = scan(project)
    return compared(project, found.catalog, found.unsettled["path"].to_list())


def compared(project, catalog, unsettled):
    return find_regressions(project.output, [catalog.recordings], catalog.rejected, unsettled)


def reported(project):
    found = look(project)
    mark_reported(project.output, found)
    return found


def spoil(project, name):
    (project.folder / "source" / name).write_bytes(b"RIFF, but no sound")


def test_before_the_first_report_nothing_is_new(tmp_path):
    project = Project(tmp_path)
    spoil(project, "bad.wav")
    found = look(project)
    assert (found.reject_lines(), found.drop_lines()) == ([], [])


def test_an_unchanged_catalog_has_nothing_new(project):
    found = reported(project)
    assert (found.reject_lines(), found.drop_lines()) == ([], [])


def test_recordings_that_were_valid_come_first_and_each_is_reported_once(project):
    spoil(project, "aaa.wav")
    spoil(project, "clip07.wav")
    lines = reported(project).reject_lines()
    assert lines[0] == "2 files or rows are newly rejected, 1 of them usable until now"
    assert lines[1].startswith("clip07.wav, usable until now: ")
    assert lines[2].startswith("aaa.wav: ")
    assert len(lines) == 3
    assert reported(project).reject_lines() == []


def test_an_unreported_problem_is_reported_by_the_next_comparison(project):
    spoil(project, "clip07.wav")
    assert look(project).reject_lines() == look(project).reject_lines() != []


def test_ten_problems_are_named_and_the_rest_is_counted(project):
    for number in range(12):
        spoil(project, f"clip{number:02d}.wav")
    lines = reported(project).reject_lines()
    assert len(lines) == 12
    assert lines[-1] == "… and 2 more"


def test_a_file_that_is_fixed_and_damaged_again_is_reported_again(project):
    write_wav(project.folder / "source/old.wav", "now sound", num_frames=8000)
    assert reported(project).reject_lines() == []
    spoil(project, "old.wav")
    assert reported(project).reject_lines()[1].startswith("old.wav, usable until now")


def test_deleted_recordings_are_reported_as_dropped_audio(project):
    for number in range(3):
        project.remove(f"clip{number:02d}.wav")
    found = reported(project)
    assert found.reject_lines() == []
    assert found.drop_lines() == [
        "usable audio: 0.003056 hours, before 0.003889",
        "3 recordings are gone",
        "clip00.wav",
        "clip01.wav",
        "clip02.wav",
    ]
    assert reported(project).drop_lines() == []


def test_a_rejected_recording_is_not_reported_as_deleted_and_shorter_ones_are_dropped_audio(project):
    project.put("clip00.wav", num_frames=80)
    assert reported(project).drop_lines() == ["usable audio: 0.003614 hours, before 0.003889"]
    project.put("clip00.wav", num_frames=70)
    assert reported(project).drop_lines() == []


def test_files_that_are_being_copied_are_not_reported_as_deleted(project):
    found = scan(project)
    absent = found.recordings.filter(pl.col("path") == "clip03.wav")
    catalog = type(found.catalog)(found.recordings.join(absent, on="path", how="anti"), found.rejected, "")
    assert compared(project, catalog, []).gone == ("clip03.wav",)
    for unsettled in (["clip03.wav"], None):
        waiting = compared(project, catalog, unsettled)
        assert waiting.drop_lines() == []
        mark_reported(project.output, waiting)
        spoil(project, "clip03.wav")
        assert look(project).lost_to_rejection[0][0] == "clip03.wav"


def test_rejected_rows_of_the_users_table_are_reported_too(project):
    project.metadata = pl.DataFrame({"path": ["clip00.wav", "nowhere.wav"], "title": ["a", "b"]})
    (line,) = reported(project).reject_lines()[1:]
    assert line.startswith("nowhere.wav: ")
    assert reported(project).reject_lines() == []


@pytest.mark.parametrize("damage", [b"", b"no table", "other"])
def test_an_unreadable_table_of_reported_problems_is_made_again(project, damage):
    if damage == "other":
        pl.DataFrame({"x": [1]}).write_parquet(project.folder / "output" / REPORTED_PATH)
    else:
        project.output.write(REPORTED_PATH, damage)
    assert reported(project).drop_lines() == []
    project.remove("clip00.wav")
    assert reported(project).gone == ("clip00.wav",)


def test_a_comparison_without_new_problems_writes_nothing(project):
    before = project.output.version(REPORTED_PATH)
    reported(project)
    assert project.output.version(REPORTED_PATH) == before


def test_exclusions_by_the_yaml_are_not_reported(project):
    """Neither excluded recordings nor excluded segments are reported, until such a recording is damaged."""
    project.audio = AudioFormat(None, None, None, segment_seconds=0.5)
    keys = dict(scan(project).recordings.select("path", "key").rows())
    assert reported(project).reject_lines() == []
    project.exclude = (keys["clip00.wav"], f"{keys['clip01.wav']}-s000000")
    assert reported(project).reject_lines() == []
    assert reported(project).gone == ()
    spoil(project, "clip00.wav")
    spoil(project, "clip01.wav")
    found = reported(project)
    assert [path for path, _ in found.lost_to_rejection] == ["clip01.wav"]
    assert [path for path, _ in found.other_rejects] == ["clip00.wav"]


class Unread:
    """A stored catalog whose partitions must not be read."""

    def __init__(self, catalog):
        self.output, self.header = catalog.output, catalog.header


def stored(project):
    """Compare the stored catalog after a scan, and report."""
    found = scan(project)
    result = stored_regressions(existing_catalog(project.output), found)
    mark_reported(project.output, result)
    return found, result


def test_the_catalog_of_the_last_report_is_not_read_again(project):
    _, before = stored(project)
    found, _ = stored(project)
    again = stored_regressions(Unread(existing_catalog(project.output)), found)
    assert (again.seconds, again.seconds_before, again.is_new) == (before.seconds, before.seconds, False)
    assert (again.reject_lines(), again.drop_lines()) == ([], [])


@pytest.mark.parametrize("change", [lambda p: spoil(p, "clip07.wav"), lambda p: p.remove("clip07.wav")])
def test_a_change_after_the_last_report_is_reported_once(project, change):
    stored(project)
    change(project)
    _, found = stored(project)
    assert found.reject_lines() or found.drop_lines()
    _, again = stored(project)
    assert (again.reject_lines(), again.drop_lines()) == ([], [])


def test_a_file_that_waited_and_is_gone_is_reported(project):
    """The catalog is the same while the file waits and after it is gone, and so the files that wait count, too."""
    stored(project)
    path = "clip07.wav"
    project.remove(path)
    found = scan(project)
    waiting = replace(found, unsettled=pl.DataFrame({"path": [path]}))
    result = stored_regressions(existing_catalog(project.output), waiting)
    assert (result.catalog, result.drop_lines()) == ("", [])
    mark_reported(project.output, result)
    _, gone = stored(project)
    assert gone.gone == (path,)
