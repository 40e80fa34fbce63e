"""Finds the members of plain tars as recordings: `a.tar/b/c.flac` is the member `b/c.flac` of `a.tar`.

The headers of a tar are read once in a process, and again when its stamp has changed. Nothing is unpacked.
"""

import functools
import re

from headrace.errors import FormatError, NotFoundError
from headrace.format.tars.tar import read_members
from headrace.format.tars.tar_members import Member
from headrace.sources.byte_ranges import range_stamp
from headrace.sources.items import Item, Place
from headrace.sources.listing import FileStamp
from headrace.sources.name_index import Kept, NameIndex
from headrace.sources.named_files import joined, opened, stamp_of_file

_KEPT_TARS = 8  # with the names of all members: a listing goes from tar to tar
_INSIDE = re.compile(r"\.tar/", re.IGNORECASE)


_starts = Kept[NameIndex](lambda starts: starts.num_bytes)


def tar_members(tar: str) -> dict[str, Member]:
    """Name → member of a tar, in its order; of several with one name, the last.

    Raises:
        FormatError: it is not a readable tar.
        OSError: it cannot be read.
    """
    stamp = stamp_of_file(tar)
    if stamp is None:
        raise NotFoundError(f"{tar}: there is no such file")
    return _members_of(tar, range_stamp(stamp, 0))


def _members_of(tar: str, stamp: FileStamp) -> dict[str, Member]:
    members = _members(tar, stamp.mtime_ns, stamp.ctime_ns)
    _starts_of(tar, stamp)
    return members


@functools.lru_cache(maxsize=_KEPT_TARS)
def _members(tar: str, _mtime_ns: int, _ctime_ns: int) -> dict[str, Member]:
    with opened(tar) as file:
        return {member.name: member for member in read_members(file, tar)}


def _starts_of(tar: str, stamp: FileStamp) -> NameIndex:
    """The first byte of each member: kept for many tars, since recordings are opened in any order."""

    def made() -> NameIndex:
        members = _members(tar, stamp.mtime_ns, stamp.ctime_ns)
        return NameIndex(list(members), [member.start for member in members.values()])

    return _starts.of((tar, stamp.mtime_ns, stamp.ctime_ns), made)


def tar_fault(tar: str) -> str:
    """Why a tar cannot be read; empty if it can."""
    try:
        tar_members(tar)
    except (FormatError, OSError) as error:
        return str(error)
    return ""


def member_item(path: str, tar: str, member: Member, fault: str = "") -> Item:
    """The item of a member, whose path in the listing is `path`/name."""
    return Item(f"{path}/{member.name}", tar, member.stop - member.start, member.fault or fault)


def place_in_tar(root: str, path: str, stamp: FileStamp) -> Place:
    """The place of the bytes of a member. A tar whose headers are known is not asked.

    Args:
        root: folder to which the path of the tar is relative.
        path: path of the member in the listing.
        stamp: its stamp there.

    Raises:
        NotFoundError: there is no such tar or member.
    """
    for match in _INSIDE.finditer(path):
        tar, name = joined(root, path[: match.end() - 1]), path[match.end() :]
        try:
            start = _starts_of(tar, stamp).number(name)
        except (FormatError, NotFoundError, FileNotFoundError, NotADirectoryError, IsADirectoryError):
            continue
        if start is not None:
            return Place(tar, start)
    raise NotFoundError(f"{path}: there is no such tar, or no such member in it")
