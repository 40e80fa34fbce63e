import os
import socket

import pytest

from headrace.bucket_source import open_source
from headrace.errors import ConfigError, UnsafePathError


def write(path, content=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def listed(root, **options):
    """Path to code of everything that the source lists."""
    entries = [
        entry for chunk in open_source(root, **options).list() for entry in zip(chunk.path, chunk.code, strict=True)
    ]
    found = dict(entries)
    assert len(found) == len(entries), "a path came twice"
    return found


def test_all_files_are_listed_recursively_but_hidden_ones(tmp_path):
    for name in ("a.wav", "b/c.flac", "b/d/e.mp3", ".hidden.wav", ".git/f.wav", "b/.x/g.wav"):
        write(tmp_path / name)
    assert listed(tmp_path) == {"a.wav": None, "b/c.flac": None, "b/d/e.mp3": None}


def test_stamps_are_size_and_time_of_change(tmp_path):
    write(tmp_path / "a.wav", b"1234")
    os.utime(tmp_path / "a.wav", ns=(5, 1_234_567_890_123_456_789))
    source = open_source(tmp_path)
    (chunk,) = source.list()
    assert (chunk.num_bytes, chunk.mtime_ns) == ([4], [1_234_567_890_123_456_789])
    stamp = source.stamp("a.wav")
    assert (stamp.num_bytes, stamp.mtime_ns) == (4, 1_234_567_890_123_456_789)


def test_metadata_table_and_output_inside_the_root_are_no_recordings(tmp_path):
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


def test_links_that_leave_the_root_are_refused_and_not_entered(tmp_path):
    write(tmp_path / "elsewhere/secret.wav")
    write(tmp_path / "root/a.wav")
    (tmp_path / "root/file.wav").symlink_to(tmp_path / "elsewhere/secret.wav")
    (tmp_path / "root/folder").symlink_to("../elsewhere")
    (tmp_path / "rooted").mkdir()  # a sibling whose name begins with the root's
    (tmp_path / "root/sibling").symlink_to("../rooted")
    refused = "outside_root"
    assert listed(tmp_path / "root") == {"a.wav": None, "file.wav": refused, "folder": refused, "sibling": refused}


def test_loops_of_links_end_and_list_nothing_twice(tmp_path):
    write(tmp_path / "a/b.wav")
    (tmp_path / "a/loop").symlink_to("..")
    (tmp_path / "again").symlink_to("a")
    (tmp_path / "self").symlink_to("self")
    assert listed(tmp_path) == {"a/b.wav": None, "self": "unreadable"}


def test_a_folder_that_only_links_reach_is_listed_once_under_the_first_link(tmp_path):
    write(tmp_path / ".store/b.wav")
    (tmp_path / "y").symlink_to(".store")
    (tmp_path / "x").symlink_to(".store")
    assert listed(tmp_path) == {"x/b.wav": None}


def test_broken_links_are_refused(tmp_path):
    (tmp_path / "a.wav").symlink_to("gone.wav")
    assert listed(tmp_path) == {"a.wav": "unreadable"}


def test_names_that_are_not_text_are_refused_and_shown_with_escapes(tmp_path):
    for name in (b"b\xe9.wav", b"d\xff/a.wav"):
        write(tmp_path / os.fsdecode(name))
    assert listed(tmp_path) == {"b\\xe9.wav": "bad_name", "d\\xff/a.wav": "bad_name"}


def test_pipes_and_sockets_are_refused_without_being_opened(tmp_path):
    os.mkfifo(tmp_path / "pipe.wav")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(tmp_path / "socket.wav"))
    assert listed(tmp_path) == {"pipe.wav": "unreadable", "socket.wav": "unreadable"}


def test_odd_but_legal_names_are_listed(tmp_path):
    names = ["with space.wav", "new\nline.wav", "back\\slash.wav", "ünïcode 音.wav", "...", "-dash.wav"]
    for name in names:
        write(tmp_path / name)
    assert listed(tmp_path) == dict.fromkeys(names[:4] + names[5:])  # "..." begins with a dot


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_folders_without_permission_are_refused(tmp_path):
    write(tmp_path / "locked/a.wav")
    (tmp_path / "locked").chmod(0)
    try:
        assert listed(tmp_path) == {"locked": "unreadable"}
    finally:
        (tmp_path / "locked").chmod(0o755)


@pytest.mark.parametrize("path", ["../secret.wav", "/etc/passwd", "a/../../secret.wav"])
def test_paths_that_climb_out_of_the_root_are_refused(tmp_path, path):
    write(tmp_path / "secret.wav")
    write(tmp_path / "root/a/b.wav")
    source = open_source(tmp_path / "root")
    with pytest.raises(UnsafePathError):
        source.open(path)
    with pytest.raises(UnsafePathError):
        source.stamp(path)


@pytest.mark.parametrize("has_proc", [True, False])
def test_a_link_that_was_turned_outside_since_the_listing_is_not_read(tmp_path, monkeypatch, has_proc):
    write(tmp_path / "secret.wav")
    write(tmp_path / "root/a.wav")
    (tmp_path / "root/link.wav").symlink_to("../secret.wav")
    (tmp_path / "root/fine.wav").symlink_to("a.wav")
    source = open_source(tmp_path / "root")
    if not has_proc:
        readlink = os.readlink
        monkeypatch.setattr("os.readlink", lambda path: readlink("/gone" if path.startswith("/proc/") else path))
    with pytest.raises(UnsafePathError):
        source.open("link.wav")
    source.open("fine.wav").close()


def test_a_missing_root_is_a_mistake_in_the_settings(tmp_path):
    with pytest.raises(ConfigError, match=r"source\.uri .*nowhere"):
        open_source(tmp_path / "nowhere")


def test_a_root_behind_a_link_is_listed(tmp_path):
    write(tmp_path / "real/a.wav")
    (tmp_path / "link").symlink_to("real")
    assert listed(tmp_path / "link") == {"a.wav": None}
    with open_source(tmp_path / "link").open("a.wav") as file:
        assert file.read() == b"x"


def test_listing_comes_in_chunks(tmp_path, monkeypatch):
    monkeypatch.setattr("headrace.sources._CHUNK_ROWS", 3)
    for number in range(10):
        write(tmp_path / f"{number % 2}/{number}.wav")
    heights = [len(chunk) for chunk in open_source(tmp_path).list()]
    assert sum(heights) == 10
    assert max(heights) == 3


def test_an_output_in_the_sources_own_folder_is_refused_by_name(tmp_path):
    with pytest.raises(ConfigError, match="is the output's folder as well"):
        open_source(tmp_path, exclude=[tmp_path / "."])
