"""Links, devices and other odd members of tars: every reader gives the bytes that they lead to, or the same error."""

import gzip
import json
import re
from contextlib import contextmanager

import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import HeadraceError
from tests.support.drills.hostile import member, tar
from tests.support.streaming.corpus import Clip
from tests.support.streaming.fault_server import fault_server

CLIP, OTHER = Clip(1, 300), Clip(2, 400)
FLAC, JSON = CLIP.flac(), CLIP.json()
PAIR = member("a/x.flac", FLAC) + member("a/x.json", JSON)


def link(name, to, size=0):
    return member(name, b"", b"1", size, to)


GOOD = {
    "links to a whole sample": (
        [PAIR, link("b/y.flac", "a/x.flac"), link("b/y.json", "a/x.json")],
        {"a/x": True, "b/y": True},
    ),
    "a link among files": (
        [PAIR, member("b/y.flac", OTHER.flac()), link("b/y.json", "a/x.json")],
        {"a/x": True, "b/y": True},
    ),
    "a chain of links": (
        [PAIR, link("spare", "a/x.json"), member("b/y.flac", FLAC), link("b/y.json", "spare")],
        {"a/x": True, "b/y": True},
    ),
    "a target without an extension": (
        [member("note", JSON), member("x.flac", FLAC), link("x.json", "./note")],
        {"x": True},
    ),
    "the size of the file in the link's header": (
        [PAIR, link("b/y.flac", "a/x.flac", len(FLAC))],
        {"a/x": True, "b/y": False},
    ),
    "the newest of two targets": (
        [member("note", b"{}"), member("note", JSON), member("x.flac", FLAC), link("x.json", "note")],
        {"x": True},
    ),
    "a folder with a dot": ([member("v1.flac/", b"", b"5"), PAIR], {"a/x": True}),
    "a link without an extension": ([PAIR, member("README", b"", b"2", link="a/x.json")], {"a/x": True}),
    "hidden links": ([PAIR, member("a/.x.flac", b"", b"2", link="nowhere")], {"a/x": True}),
    "a contiguous file": ([member("x.flac", FLAC, b"7"), member("x.json", JSON, b"\0")], {"x": True}),
}
FAULTS = {
    "a link to nothing": ([PAIR, link("b/y.flac", "a/gone.flac")], r"'b/y\.flac' is a hard link to 'a/gone\.flac'"),
    "a link to a later file": ([link("x.json", "note"), member("note", JSON)], r"'x\.json' is a hard link to 'note'"),
    "a link to itself": ([PAIR, link("b/y.json", "b/y.json")], r"'b/y\.json' is a hard link to 'b/y\.json'"),
    "a link to a folder": ([PAIR, member("d/", b"", b"5"), link("y.json", "d")], r"'y\.json' is a hard link to 'd'"),
    "a link to a symbolic link": (
        [PAIR, member("s", b"", b"2", link="a/x.json"), link("b/y.json", "s")],
        r"'b/y\.json' is a hard link, and 's' is a symbolic link to 'a/x\.json'",
    ),
    "a symbolic link": ([PAIR, member("y.json", b"", b"2", link="a/x.json")], r"'y\.json' is a symbolic link to"),
    "a symbolic link of capitals": ([PAIR, member("Y.JSON", b"", b"2", link="a/x.json")], r"'Y\.JSON' is a symbolic"),
    "a field of a sample": ([PAIR, member("a/x.txt", b"", b"2", link="t")], r"'a/x\.txt' is a symbolic link to 't'"),
    "a character device": ([PAIR, member("y.json", b"", b"3")], r"'y\.json' is a device, not a file"),
    "a block device": ([PAIR, member("y.json", b"", b"4")], r"'y\.json' is a device, not a file"),
    "a pipe": ([PAIR, member("y.json", b"", b"6")], r"'y\.json' is a pipe, not a file"),
    "an unknown type": ([PAIR, member("y.json", JSON, b"Z")], r"'y\.json' is a member of type 'Z', not a file"),
    "the rest of a file of another volume": (
        [PAIR, member("y.json", JSON, b"M")],
        r"'y\.json' is a member of type 'M'",
    ),
    "the name of a volume": ([member("day.one", b"", b"V"), PAIR], r"'day\.one' is a member of type 'V'"),
}


def streamed(remote, **options):
    data = StreamingDataset(remote=str(remote), batch_size=1, shuffle=False, **options)
    return {
        batch["keys"][0]: (int(batch["num_frames"][0]), batch["metadata"][0])
        for batch in StreamingDataLoader(data, num_threads=1)
    }


def piped(remote):
    samples = list(webdataset_loader(str(remote), batch_size=None))
    return {sample["__key__"]: (sample["audio"].shape[-1], sample["metadata"]) for sample in samples}


LOADERS = [streamed, piped]
COMMANDS = ["index", "verify"]


def expected(case):
    frames = {"b/y": 400} if case == "a link among files" else {}
    return {
        key: (frames.get(key, 300), json.loads(JSON) if has_json else {}) for key, has_json in GOOD[case][1].items()
    }


@contextmanager
def served(folder):
    """The address of a folder in an object store."""
    with fault_server(folder) as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment().items():
            patch.setenv(name, value)
        yield server.uri


@pytest.fixture
def packed(tmp_path):
    def write(members, name="a.tar"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(tar(*members)) if name.endswith("gz") else tar(*members))
        return path

    return write


@pytest.mark.parametrize("read", LOADERS)
@pytest.mark.parametrize("name", ["a.tar", "a.tar.gz"])
@pytest.mark.parametrize("case", GOOD)
def test_a_link_gives_the_bytes_that_it_leads_to(packed, read, name, case):
    assert read(packed(GOOD[case][0], name)) == expected(case)


@pytest.mark.parametrize("read", LOADERS)
@pytest.mark.parametrize("case", ["links to a whole sample", "a link among files"])
def test_a_link_in_a_store_gives_the_bytes_that_it_leads_to(packed, tmp_path, read, case):
    packed(GOOD[case][0])
    with served(tmp_path) as bucket:
        assert read(f"{bucket}/a.tar") == expected(case)


@pytest.mark.parametrize("case", GOOD)
def test_links_are_indexed_and_verified(packed, case, capsys):
    path = packed(GOOD[case][0])
    assert main(["index", str(path)]) == 0
    assert json.loads(path.with_name("sizes.json").read_bytes()) == {"a.tar": len(expected(case))}
    assert main(["verify", str(path)]) == 0, capsys.readouterr()
    assert streamed(path) == piped(path) == expected(case)


@pytest.mark.parametrize("read", LOADERS)
@pytest.mark.parametrize("case", FAULTS)
def test_a_member_without_bytes_is_an_error_where_its_name_is_a_field(packed, read, case):
    members, words = FAULTS[case]
    with pytest.raises(HeadraceError, match=rf"a\.tar.*: {words}.*; pack the tar again with the file itself"):
        read(packed(members))


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("case", FAULTS)
def test_commands_report_a_member_without_bytes(packed, command, case, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "1000")
    members, words = FAULTS[case]
    assert main([command, str(packed(members))]) == 1
    found = capsys.readouterr()
    assert re.search(words, found.out + found.err)
    assert not list(packed(members).parent.glob("*.idx"))


def test_a_stream_that_cannot_be_read_twice_names_its_hard_link(packed):
    path = packed(GOOD["links to a whole sample"][0])
    with pytest.raises(HeadraceError, match=r"'b/y\.flac' is a hard link.*tar --hard-dereference"):
        piped(f"pipe:cat {path}")


NAMES = ["TR.TAR", "Tr.Tar", "a.TAR", "a.TAR.GZ", "a.TGZ", "a.tar.GZ"]


@pytest.mark.parametrize("read", LOADERS)
@pytest.mark.parametrize("name", NAMES)
def test_shards_are_read_whatever_letters_their_extension_has(packed, tmp_path, read, name):
    path = tmp_path / name
    blob = tar(PAIR)
    path.write_bytes(gzip.compress(blob) if name.lower().endswith("gz") else blob)
    (tmp_path / "b.tar").write_bytes(tar(member("z.flac", OTHER.flac())))
    for remote in (tmp_path, f"{tmp_path}/*.[tT]*"):
        assert read(remote) == {"a/x": (300, json.loads(JSON)), "z": (400, {})}
    assert read(path) == {"a/x": (300, json.loads(JSON))}
    with served(tmp_path) as bucket:
        assert read(f"{bucket}/{name}") == {"a/x": (300, json.loads(JSON))}


@pytest.mark.medium
@pytest.mark.parametrize("name", ["TR.TAR", "tr.Tar"])
def test_an_index_belongs_to_one_shard_whatever_letters_its_extension_has(tmp_path, name, capsys):
    (tmp_path / name).write_bytes(tar(PAIR))
    (tmp_path / f"{name[:-4]}.tar").write_bytes(tar(member("z.flac", OTHER.flac())))
    assert main(["index", str(tmp_path)]) == main(["verify", str(tmp_path)]) == 0, capsys.readouterr()
    assert streamed(tmp_path) == piped(tmp_path) == {"a/x": (300, json.loads(JSON)), "z": (400, {})}


@pytest.mark.parametrize("read", LOADERS)
def test_a_glob_warns_of_shards_that_differ_in_capital_letters(tmp_path, read):
    (tmp_path / "TR.TAR").write_bytes(tar(PAIR))
    (tmp_path / "b.tar").write_bytes(tar(member("z.flac", OTHER.flac())))
    with pytest.warns(UserWarning, match=r"TR\.TAR: is not read, since '\*\.tar' has other capital letters"):
        assert read(f"{tmp_path}/*.tar") == {"z": (400, {})}
