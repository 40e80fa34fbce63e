import os
import socket
from pathlib import Path

import polars as pl
import pytest

from headrace.catalog.rows.schemas import STAMP_SCHEMA
from headrace.catalog.scanning.scan_parts import plan_scan
from headrace.errors import ConfigError, FileChangedError, UnsafePathError
from headrace.sources.listing import FileStamp, Listing, stamps_of
from headrace.sources.source_changes import source_difference
from headrace.sources.sources import open_source
from tests.support.sources import write


def stamp_of(path):
    status = Path(path).stat()
    return FileStamp(status.st_size, status.st_mtime_ns)


def listed(root, **options):
    """The reject code, or none, of every listed path."""
    entries = [
        entry for chunk in open_source(root, **options).list() for entry in zip(chunk.path, chunk.code, strict=True)
    ]
    found = dict(entries)
    assert len(found) == len(entries), "a path came twice"
    return found


def test_all_files_except_hidden_ones_are_listed_recursively(tmp_path):
    for name in ("a.wav", "b/c.flac", "b/d/e.mp3", ".hidden.wav", ".git/f.wav", "b/.x/g.wav"):
        write(tmp_path / name)
    assert listed(tmp_path) == {"a.wav": None, "b/c.flac": None, "b/d/e.mp3": None}


def test_stamps_are_size_and_modification_time(tmp_path):
    write(tmp_path / "a.wav", b"1234")
    os.utime(tmp_path / "a.wav", ns=(5, 1_234_567_890_123_456_789))
    source = open_source(tmp_path)
    (chunk,) = source.list()
    assert (chunk.num_bytes, chunk.mtime_ns) == ([4], [1_234_567_890_123_456_789])
    with source.open("a.wav", FileStamp(4, 1_234_567_890_123_456_789)) as file:
        assert file.read() == b"1234"


def test_a_file_that_was_changed_before_or_while_it_is_read_is_an_error(tmp_path):
    write(tmp_path / "a.wav", b"1234")
    source, stamp = open_source(tmp_path), stamp_of(tmp_path / "a.wav")
    for other in (FileStamp(5, stamp.mtime_ns), FileStamp(4, stamp.mtime_ns + 1)):
        with pytest.raises(FileChangedError, match=r"a\.wav"), source.open("a.wav", other):
            pytest.fail("opened")
    with pytest.raises(FileChangedError), source.open("a.wav", stamp):
        write(tmp_path / "a.wav", b"12345")
    with pytest.raises(FileNotFoundError), source.open("a.wav", stamp_of(tmp_path / "a.wav")):
        (tmp_path / "a.wav").unlink()


def test_metadata_table_and_output_inside_the_root_are_not_listed(tmp_path):
    for name in ("a.wav", "metadata.csv", "out/audio/b.tar", "output.wav"):
        write(tmp_path / name)
    (tmp_path / "link.csv").symlink_to("metadata.csv")
    (tmp_path / "link").symlink_to("out")
    assert listed(tmp_path, exclude=[tmp_path / "metadata.csv", tmp_path / "out"]) == {
        "a.wav": None,
        "output.wav": None,
    }


def test_links_to_files_inside_the_root_are_files(tmp_path):
    write(tmp_path / ".store/blob")
    (tmp_path / "a.wav").symlink_to(".store/blob")
    assert listed(tmp_path) == {"a.wav": None}


def test_links_that_leave_the_root_are_rejected_and_not_followed(tmp_path):
    write(tmp_path / "elsewhere/secret.wav")
    write(tmp_path / "root/a.wav")
    (tmp_path / "root/file.wav").symlink_to(tmp_path / "elsewhere/secret.wav")
    (tmp_path / "root/folder").symlink_to("../elsewhere")
    (tmp_path / "rooted").mkdir()  # a sibling whose name starts with the root's name
    (tmp_path / "root/sibling").symlink_to("../rooted")
    refused = "outside_root"
    assert listed(tmp_path / "root") == {"a.wav": None, "file.wav": refused, "folder": refused, "sibling": refused}


def test_loops_of_links_end_and_no_file_is_listed_twice(tmp_path):
    write(tmp_path / "a/b.wav")
    (tmp_path / "a/loop").symlink_to("..")
    (tmp_path / "again").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    assert listed(tmp_path) == {"a/b.wav": None, "self": "unreadable"}


def test_a_folder_that_only_links_reach_is_listed_once_with_the_first_link(tmp_path):
    write(tmp_path / ".store/b.wav")
    (tmp_path / "y").symlink_to(".store")
    (tmp_path / "x").symlink_to(".store")
    assert listed(tmp_path) == {"x/b.wav": None}


def test_broken_links_are_rejected(tmp_path):
    (tmp_path / "a.wav").symlink_to("gone.wav")
    assert listed(tmp_path) == {"a.wav": "unreadable"}


def test_names_that_are_not_utf8_are_rejected_and_shown_with_escapes(tmp_path):
    for name in (b"b\xe9.wav", b"d\xff/a.wav"):
        write(tmp_path / os.fsdecode(name))
    assert listed(tmp_path) == {"b\\xe9.wav": "bad_name", "d\\xff/a.wav": "bad_name"}


def test_pipes_and_sockets_are_rejected_without_being_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.wav"))
    assert listed(tmp_path) == {"pipe.wav": "unreadable", "socket.wav": "unreadable"}


@pytest.mark.timeout(120)
def test_a_pipe_in_place_of_a_listed_file_is_an_error_and_does_not_block(tmp_path):
    write(tmp_path / "a.wav")
    source = open_source(tmp_path)
    (chunk,) = source.list()
    assert chunk.code == [None]
    (tmp_path / "a.wav").unlink()
    os.mkfifo(tmp_path / "a.wav")
    pipe = stamp_of(tmp_path / "a.wav")
    with pytest.raises(OSError, match="not a regular file but a pipe") as error, source.open("a.wav", pipe):
        pytest.fail("opened")
    assert error.value.filename == "a.wav"


@pytest.mark.timeout(120)
def test_a_device_is_not_opened_as_a_recording():
    with (
        pytest.raises(OSError, match="not a regular file"),
        open_source("/dev").open("zero", stamp_of("/dev/zero")),
    ):
        pytest.fail("opened")


def test_unusual_but_legal_names_are_listed(tmp_path):
    names = ["with space.wav", "new\nline.wav", "back\\slash.wav", "ünïcode 音.wav", "...", "-dash.wav"]
    for name in names:
        write(tmp_path / name)
    assert listed(tmp_path) == dict.fromkeys(names[:4] + names[5:])  # "..." starts with a dot


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_without_permission_are_rejected(tmp_path):
    write(tmp_path / "locked/a.wav")
    (tmp_path / "locked").chmod(0)
    try:
        assert listed(tmp_path) == {"locked": "unreadable"}
    finally:
        (tmp_path / "locked").chmod(0o755)


@pytest.mark.parametrize("path", ["../secret.wav", "/etc/passwd", "a/../../secret.wav"])
def test_paths_that_leave_the_root_are_rejected(tmp_path, path):
    write(tmp_path / "secret.wav")
    write(tmp_path / "root/a/b.wav")
    source = open_source(tmp_path / "root")
    with pytest.raises(UnsafePathError), source.open(path, FileStamp(1, 0)):
        pytest.fail("opened")


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_link_that_was_changed_to_leave_the_root_after_the_listing_is_not_read(tmp_path, monkeypatch, has_proc):
    write(tmp_path / "secret.wav")
    write(tmp_path / "root/a.wav")
    (tmp_path / "root/link.wav").symlink_to("../secret.wav")
    (tmp_path / "root/fine.wav").symlink_to("a.wav")
    source = open_source(tmp_path / "root")
    if not has_proc:
        readlink = os.readlink
        monkeypatch.setattr("os.readlink", lambda path: readlink("/gone" if path.startswith("/proc/") else path))
    with pytest.raises(UnsafePathError), source.open("link.wav", stamp_of(tmp_path / "secret.wav")):
        pytest.fail("opened")
    with source.open("fine.wav", stamp_of(tmp_path / "root/a.wav")) as file:
        assert file.read() == b"x"


def test_a_missing_root_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match=r"source\.uri .*nowhere"):
        open_source(tmp_path / "nowhere")


def test_a_root_that_is_a_link_is_listed(tmp_path):
    write(tmp_path / "real/a.wav")
    (tmp_path / "link").symlink_to("real")
    assert listed(tmp_path / "link") == {"a.wav": None}
    with open_source(tmp_path / "link").open("a.wav", stamp_of(tmp_path / "real/a.wav")) as file:
        assert file.read() == b"x"


def test_the_error_about_an_output_or_a_table_that_is_the_source_folder_names_both(tmp_path):
    with pytest.raises(ConfigError, match=r"output\.uri or the path of a table .* is the same folder"):
        open_source(tmp_path, exclude=[tmp_path / "."])


_LISTED = {**STAMP_SCHEMA, "code": pl.String}
ODD_TIMES = [
    -(1 << 70),
    -(1 << 63) - 1,
    -(1 << 63),
    -10_000_000_000_000_000_000,
    -5,
    0,
    (1 << 63) - 1,
    1 << 63,
    1 << 70,
]


@pytest.mark.parametrize("mtime_ns", ODD_TIMES)
def test_a_time_that_tables_cannot_hold_becomes_the_nearest_one(mtime_ns):
    listing = Listing()
    listing.add("a.wav", FileStamp(4, mtime_ns, mtime_ns))
    (held,) = listing.mtime_ns
    assert listing.ctime_ns == [held]
    assert held == max(-(1 << 63) + 1, min(mtime_ns, (1 << 63) - 1))
    chunk = pl.DataFrame([("a.wav", 4, held, held, None)], schema=_LISTED, orient="row")
    known = pl.DataFrame(schema=_LISTED)
    for now_ns in (0, 1_764_000_000_000_000_000):
        plan = plan_scan(chunk, known, 5 * 10**9, now_ns)
        is_young = abs(held - now_ns) < 5 * 10**9
        assert (plan.to_open.height, plan.unsettled.height) == (not is_young, is_young)
        stamps = stamps_of(listing.path, listing.num_bytes, listing.mtime_ns, listing.ctime_ns)
        assert source_difference(stamps, None, 5.0, now_ns).num_waiting == is_young


@pytest.mark.parametrize("seconds", [2**33, 2**34 + 1, -(2**31) + 1, -(2**34), 2**40, -(2**40)])
def test_a_file_of_a_far_year_is_listed_and_opened(tmp_path, seconds):
    write(tmp_path / "a.wav", b"1234")
    os.utime(tmp_path / "a.wav", (seconds, seconds))
    source = open_source(tmp_path)
    (chunk,) = source.list()
    stamp = FileStamp(4, chunk.mtime_ns[0])
    assert abs(stamp.mtime_ns) < 1 << 63
    with source.open("a.wav", stamp) as file:
        assert file.read() == b"1234"
    os.utime(tmp_path / "a.wav", (5, 5))
    with pytest.raises(FileChangedError), source.open("a.wav", stamp):
        pytest.fail("opened")
