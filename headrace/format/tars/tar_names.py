"""Ends of names: those of tars, in capital and small letters alike, and the digest in names that Headrace gives."""

TAR_SUFFIX = ".tar"
ZIP_SUFFIXES = (".tar.gz", ".tgz", ".tar.zst")
TAR_SUFFIXES = (TAR_SUFFIX, *ZIP_SUFFIXES)
DIGEST_DIGITS = 12
"""Hex digits of a file's SHA-256 in the name that Headrace gives it."""


def digest_ending(sha256: str) -> str:
    """The end of the name, before its suffix, of a file that Headrace names after its content: `-1a2b3c4d5e6f`."""
    return f"-{sha256[:DIGEST_DIGITS]}"


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
