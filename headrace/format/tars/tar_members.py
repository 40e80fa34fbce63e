"""Finds the bytes of the members of a tar, one after another: a file's own ones, or those that a hard link leads to.

A hard link has no bytes of its own: it names a member before it. A member that is neither a file, nor a hard link to
one, nor a folder has no bytes that a reader could deliver; it becomes a `Member` with a fault, which is an error where
its name is that of a field.
"""

import posixpath
import tarfile
from dataclasses import dataclass

_KINDS = {
    tarfile.SYMTYPE: "a symbolic link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a pipe",
}
_REPACK = "pack the tar again with the file itself"


@dataclass(frozen=True, slots=True)
class Member:
    """One file in a tar: its payload is bytes `start` to `stop` of the archive.

    Attributes:
        name: name of the member.
        start: first byte of the payload.
        stop: end of the payload.
        fault: why the member has no payload; empty for files and for hard links to files.
    """

    name: str
    start: int
    stop: int
    fault: str = ""


class MemberFinder:
    """Gives the `Member` of each header of one tar; headers are given in the order of the tar."""

    def __init__(self) -> None:
        self._found: dict[str, Member] = {}

    def noted(self, member: Member) -> Member:
        """The member, noted as a target of hard links after it."""
        self._found[posixpath.normpath(member.name)] = member
        return member

    def member(self, info: tarfile.TarInfo) -> Member | None:
        """The member of a header; None for a folder."""
        if info.isdir():
            return None
        if info.isreg():
            return self.noted(Member(info.name, info.offset_data, info.offset_data + info.size))
        return self.noted(self._linked(info) if info.islnk() else Member(info.name, 0, 0, _fault(info)))

    def _linked(self, info: tarfile.TarInfo) -> Member:
        target = self._found.get(posixpath.normpath(info.linkname))
        if target is None:
            fault = f"{info.name!r} is a hard link to {info.linkname!r}, which is not before it in the tar; {_REPACK}"
            return Member(info.name, 0, 0, fault)
        if target.fault:
            return Member(info.name, 0, 0, f"{info.name!r} is a hard link, and {target.fault}")
        return Member(info.name, target.start, target.stop)


def _fault(info: tarfile.TarInfo) -> str:
    kind = _KINDS.get(info.type, f"a member of type {info.type.decode('latin-1')!r}")
    to = f" to {info.linkname!r}" if info.issym() else ""
    way_out = f"{_REPACK} (tar --dereference)" if info.issym() else _REPACK
    return f"{info.name!r} is {kind}{to}, not a file; {way_out}"
