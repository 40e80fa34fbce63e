"""A file that was replaced under its old size and time is noticed; other changes of an inode write no shard."""

import os
import shutil
import time

import pytest

from headrace.assemble.recording_encoder import RecordingEncoder
from headrace.catalog.scanning.checkpoint import ScanCheckpoint
from headrace.catalog.scanning.scan import scan
from headrace.catalog.stored.header import read_current_header, read_stamps
from headrace.catalog.stored.parts import partition_recordings
from headrace.catalog.stored.update import update_catalog
from headrace.config.dataset import DatasetConfig
from headrace.errors import AudioError, BuildError
from headrace.sources.source_changes import GradualListing, source_difference
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage
from headrace_dagster.resources.storage import StorageResource
from tests.support.builds import PLAIN, Project, write_wav
from tests.support.catalog_fakes import AT_ONCE, fake_runtime

NS = 1_000_000_000
OLD, FUTURE = 1_600_000_000 * NS, 4_000_000_000 * NS


def in_place(path, other):
    """Write another content into the same inode and keep its old time, as `cp -p` does."""
    status = path.stat()
    path.write_bytes(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def renamed(path, other):
    """Give the name to another inode with the old time, as `rsync -t` or a restored backup does."""
    status = path.stat()
    copy = path.with_name(f".{path.name}.part")
    shutil.copyfile(other, copy)
    os.utime(copy, ns=(status.st_atime_ns, status.st_mtime_ns))
    copy.replace(path)


def mapped(path, other):
    """Through a file that is open for writing, with the time set back afterwards."""
    status = path.stat()
    with path.open("r+b") as file:
        file.write(other.read_bytes())
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


WAYS = {"cp -p": in_place, "rsync -t": renamed, "r+b": mapped}
TOUCHES = {
    "chmod": lambda path: path.chmod(0o600),
    "a hard link": lambda path: path.parent.parent.joinpath("link").hardlink_to(path),
    "renamed and back": lambda path: path.rename(path.with_suffix(".x")).rename(path),
}


@pytest.fixture
def project(tmp_path):
    project = Project(tmp_path)
    for number in range(6):
        project.put(f"c{number}.wav", num_frames=300)
        os.utime(tmp_path / f"source/c{number}.wav", ns=(OLD, OLD))
    return project


@pytest.fixture
def other(tmp_path):
    """Another content of the same size."""
    write_wav(tmp_path / "other.wav", "another", num_frames=300)
    return tmp_path / "other.wav"


def difference(project):
    """Difference that the sensor sees."""
    known = read_stamps(project.output, read_current_header(project.output, project.config()))
    listing = GradualListing(open_source(project.folder / "source")).go_on(60)
    return source_difference(listing, known, 5, time.time_ns())


@pytest.mark.medium
@pytest.mark.parametrize(("way", "times"), list(zip(WAYS.values(), [OLD, FUTURE, 0], strict=True)), ids=WAYS)
def test_a_recording_with_another_content_under_its_old_size_and_time_is_built_again(project, other, way, times):
    victim = project.folder / "source/c3.wav"
    os.utime(victim, ns=(times, times))
    before = project.build()
    size = victim.stat().st_size
    way(victim, other)
    assert (victim.stat().st_size, victim.stat().st_mtime_ns) == (size, times)
    assert difference(project).is_changed
    assert not difference(project).num_waiting
    after = project.build()
    assert len(after.written) == 1
    assert after.shard_of("c3") != before.shard_of("c3")
    assert not difference(project).is_changed


@pytest.mark.medium
@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_a_change_of_the_inode_alone_reads_one_file_and_writes_no_shard(project, touch):
    before = project.build()
    files = project.files()
    touch(project.folder / "source/c3.wav")
    assert difference(project).is_changed
    source = open_source(project.folder / "source")
    found, _ = update_catalog(project.config(), source, None, project.output)
    assert (found.num_opened, found.num_reused) == (1, 5)
    after = project.build()
    assert (after.written, after.is_new) == ([], False)
    assert after.snapshot.number == before.snapshot.number
    assert project.files() == files


@pytest.mark.medium
def test_a_scan_without_changes_opens_no_file(project):
    project.build()
    found, _ = update_catalog(project.config(), open_source(project.folder / "source"), None, project.output)
    assert (found.num_opened, found.num_reused) == (0, 6)
    assert not difference(project).is_changed


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_an_interrupted_scan_is_not_trusted_about_a_file_that_was_replaced_since(project, other, way):
    source, checkpoint = open_source(project.folder / "source"), ScanCheckpoint(project.output, seconds=0)

    def progress(done, total):
        if done == total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        scan(source, None, AT_ONCE, None, fake_runtime(progress=progress), checkpoint=checkpoint)
    way(project.folder / "source/c3.wav", other)
    found = scan(source, None, AT_ONCE, None, fake_runtime(), checkpoint=ScanCheckpoint(project.output))
    assert (found.num_opened, found.num_resumed) == (1, 5)


def encoder_and_recording(project):
    source = open_source(project.folder / "source")
    update_catalog(project.config(), source, None, project.output)
    parts = (partition_recordings(project.output, project.config(), name) for name in project.layout.partition_keys())
    return RecordingEncoder(source, PLAIN), next(row for part in parts for row in part if row.path == "c3.wav")


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_build_refuses_a_file_that_was_replaced_since_the_scan(project, other, way):
    encoder, recording = encoder_and_recording(project)
    way(project.folder / "source/c3.wav", other)
    with pytest.raises(BuildError, match=r"c3\.wav: the file changed since the catalog was scanned; build again"):
        encoder.fault(recording)


@pytest.mark.parametrize("touch", TOUCHES.values(), ids=TOUCHES)
def test_a_build_reads_a_file_of_which_only_the_inode_changed_since_the_scan(project, touch):
    encoder, recording = encoder_and_recording(project)
    touch(project.folder / "source/c3.wav")
    assert not isinstance(encoder.fault(recording), AudioError)


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_a_table_that_was_replaced_under_its_old_size_and_time_has_another_stamp(tmp_path, way):
    for name in ("birds", "keys", "more"):
        (tmp_path / f"{name}.csv").write_text("path,title\na.wav,A\n")
        os.utime(tmp_path / f"{name}.csv", ns=(OLD, OLD))
    (tmp_path / "other").write_text("path,title\na.wav,B\n")
    (tmp_path / "source").mkdir()
    config = DatasetConfig(
        name="birds",
        source={"uri": "source", "metadata": "birds.csv"},
        exclude="keys.csv",
        columns=[{"name": "more", "table": "more.csv"}],
        output={"uri": "out"},
    )
    storage = StorageResource(root=str(tmp_path))
    before = storage.table_stamps(config)
    assert storage.table_stamps(config) == before
    for name in before:
        way(tmp_path / name, tmp_path / "other")
        assert storage.table_stamps(config)[name] != before[name]
    assert len(before) >= 2


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
def test_the_version_of_a_local_object_changes_with_its_content_alone(tmp_path, way):
    (tmp_path / "a.tar").write_bytes(b"x" * 100)
    (tmp_path / "other").write_bytes(b"y" * 100)
    os.utime(tmp_path / "a.tar", ns=(OLD, OLD))
    before = LocalStorage(tmp_path).version("a.tar")
    way(tmp_path / "a.tar", tmp_path / "other")
    assert LocalStorage(tmp_path).version("a.tar") != before
