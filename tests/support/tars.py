"""Creates ordinary tars with Python's `tarfile`, padded to 10 KiB."""

import io
import tarfile


def tar_of(members):
    """The bytes of a tar with these `members`, contents by name."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for name, blob in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(blob)
            archive.addfile(info, io.BytesIO(blob))
    return file.getvalue()


def write_tar(path, members):
    """Write a tar of pairs of name and content."""
    path.write_bytes(tar_of(dict(members)))
