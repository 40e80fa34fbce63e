"""The digest of a recording's content: SHA-256 of its bytes, or the ETag of its object (`source.digests: store`).

Equal digests are taken to mean equal bytes. An ETag with the form of an MD5, with or without the number of parts of a
multipart upload, is one: it depends on the bytes, and on how they were divided. Other ETags may be counters or times,
which objects with other bytes may have too. So the path is part of their digest.
"""

import hashlib
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import BinaryIO, NamedTuple

from headrace.format.tars.tar import sha256_of

DIGEST_PATTERN = "^([0-9a-f]{64}|etag-.+)$"
"""Pattern of the column `sha256` of a catalog."""

_ETAG = "etag-"
_MD5 = re.compile(r"[0-9a-f]{32}(-[0-9]+)?")
_PATH_DIGITS = 12


class DigestedFile(NamedTuple):
    """An open recording, at its beginning, and the digest of its content."""

    file: BinaryIO
    digest: str


@contextmanager
def read_digest(opened: AbstractContextManager[BinaryIO]) -> Iterator[DigestedFile]:
    """A block with the file of another block, and the SHA-256 of its bytes, all of which are read."""
    with opened as file:
        digest = sha256_of(file)
        file.seek(0)
        yield DigestedFile(file, digest)


def digest_of_tag(tag: str, path: str) -> str:
    """The digest of an object with this ETag.

    >>> digest_of_tag('"5d41402abc4b2a76b9719d911017c592-3"', "a.wav")
    'etag-5d41402abc4b2a76b9719d911017c592-3'
    >>> digest_of_tag('"0x8DAB"', "a.wav")
    'etag-0x8DAB-bc30c538c410'
    """
    content = tag.removeprefix("W/").strip('"')
    if _MD5.fullmatch(content):
        return f"{_ETAG}{content}"
    return f"{_ETAG}{content}-{hashlib.sha256(path.encode()).hexdigest()[:_PATH_DIGITS]}"


def named_digest(digest: str) -> dict[str, str]:
    """The digest under the name that it has in the JSON of a sample."""
    if digest.startswith(_ETAG):
        return {"source_etag": digest.removeprefix(_ETAG)}
    return {"source_sha256": digest}
