"""Recognises tars, plain and compressed, by the ends of their names, in capital and small letters alike."""

TAR_SUFFIX = ".tar"
ZIP_SUFFIXES = (".tar.gz", ".tgz", ".tar.zst")
TAR_SUFFIXES = (TAR_SUFFIX, *ZIP_SUFFIXES)


def is_tar(name: str) -> bool:
    """Whether a file's name is that of a tar, plain or compressed."""
    return name.lower().endswith(TAR_SUFFIXES)


def is_plain_tar(name: str) -> bool:
    """Whether a file's name is that of a tar that is not compressed."""
    return name.lower().endswith(TAR_SUFFIX)


def is_packed_tar(name: str) -> bool:
    """Whether a file's name is that of a compressed tar."""
    return name.lower().endswith(ZIP_SUFFIXES)


def without_suffix(name: str) -> str:
    """The name of a tar without the ending that makes it one; other names stay as they are.

    >>> without_suffix("a/TR.TAR"), without_suffix("b.tar.gz"), without_suffix("c.columns")
    ('a/TR', 'b', 'c.columns')
    """
    suffix = next((end for end in TAR_SUFFIXES if name.lower().endswith(end)), "")
    return name[: len(name) - len(suffix)]
