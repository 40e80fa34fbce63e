"""Indexes of tars as Energon, Lhotse and webshart write them, made from the tar by `tarfile`."""

import json
import struct
import tarfile

from headrace.format.tars.member_names import split_name


def _members(tar):
    with tarfile.open(tar) as archive:
        return archive.getmembers(), archive.offset


def _begins(members):
    found = [(parts[0], one.offset) for one in members if (parts := split_name(one.name)) is not None]
    return [offset for (key, offset), (before, _) in zip(found, [("", 0), *found], strict=False) if key != before]


def _numbers(places):
    return struct.pack(f"<{len(places)}Q", *places)


def energon(tar):
    """`X.tar.idx`: the first header of each sample, and the end of the last one."""
    members, end = _members(tar)
    return _numbers([*_begins(members), end])


def lhotse(tar):
    """`X.tar.idx`: the first header of each sample, and the size of the tar."""
    return _numbers([*_begins(_members(tar)[0]), tar.stat().st_size])


def webshart(tar):
    """`X.json`: files by name."""
    files = {one.name: {"offset": one.offset_data, "length": one.size} for one in _members(tar)[0]}
    return json.dumps({"filesize": tar.stat().st_size, "files": files}).encode()


def cheesechaser(tar):
    """`X.json`: a list of files, with the other words that webshart reads."""
    files = [{"fname": one.name, "offset": one.offset_data, "size": one.size} for one in _members(tar)[0]]
    return json.dumps({"files": files}).encode()


WRITERS = {writer.__name__: writer for writer in (energon, lhotse, webshart, cheesechaser)}


def place(tar, form):
    """The file of an index beside a tar."""
    return tar.with_name(f"{tar.name}.idx") if form in {"energon", "lhotse"} else tar.with_suffix(".json")


def write(tar, form):
    """Write an index beside a tar. Returns its file."""
    path = place(tar, form)
    path.write_bytes(WRITERS[form](tar))
    return path
