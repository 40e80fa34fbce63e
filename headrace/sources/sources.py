"""The `Source` protocol (a place that holds recordings) and `open_source`, which opens one by path or URL.

The two implementations are `headrace.sources.folder_source` and `headrace.sources.bucket_source`. A source lists and
opens files. It does not look at their audio.
"""

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import BinaryIO, Protocol

from headrace.config.source import Digests
from headrace.errors import ConfigError
from headrace.sources.bucket_source import BucketSource
from headrace.sources.content_digests import DigestedFile
from headrace.sources.folder_source import open_folder
from headrace.sources.listing import FileStamp, Listing
from headrace.stores.file_urls import is_file_url
from headrace.stores.storage import open_bucket


class Source(Protocol):
    """Recordings below one root, named by relative POSIX path."""

    @property
    def uri(self) -> str:
        """The root, as a user would write it."""

    def list(self) -> Iterator[Listing]:
        """All files in chunks, in any order. Entries with a `code` cannot be opened.

        A chunk is given as soon as it is there: after one request to a store, or about a thousand entries of folders.
        It may be empty.
        """

    def open(self, path: str, stamp: FileStamp) -> AbstractContextManager[BinaryIO]:
        """A block with a seekable binary file.

        Args:
            path: the file.
            stamp: its size and modification time in the listing.

        Raises:
            FileChangedError: at the beginning or end of the block, or from the file: it is not, or no longer, the
                listed one.
            UnsafePathError: the path leaves the root.
            OSError: the file cannot be read.
        """

    def open_digested(self, path: str, stamp: FileStamp) -> AbstractContextManager[DigestedFile]:
        """Open a file as `open` does, with the digest of its content (`headrace.sources.content_digests`)."""


def open_source(
    uri: str | os.PathLike[str],
    *,
    exclude: Sequence[str | os.PathLike[str]] = (),
    digests: Digests = Digests.READ,
    ignore: Sequence[str] = (),
    follow_links: bool = False,
) -> Source:
    """Open the source at a folder, a `file://` URL, or a bucket URL (`s3://bucket/prefix`, `gs://…`, `az://…`).

    Args:
        uri: the root.
        exclude: files and folders below the root that are not recordings: the metadata table, the output.
        digests: where the digests of recordings come from.
        ignore: glob patterns of files that are not recordings, see `headrace.path_patterns.ignoring`.
        follow_links: whether symbolic links may lead out of a folder.

    Raises:
        ConfigError: the URL's scheme is unknown or cannot be listed, the root is not a folder, the root is excluded, or
            digests of the store are wanted for a folder.
    """
    text = os.fspath(uri)
    excluded = [os.fspath(path) for path in exclude]
    if is_file_url(text) or "://" not in text:
        if digests == Digests.STORE:
            raise ConfigError(
                f"source.digests: store: source.uri {text} is a folder, and files have no ETag; remove source.digests, "
                "or name a bucket (s3://, gs:// or az://)"
            )
        local = [path for path in excluded if "://" not in path]
        return open_folder(text, exclude=local, ignore=ignore, follow_links=follow_links)
    if text.startswith(("http://", "https://")):
        raise ConfigError(
            f"source.uri {text}: files on a web server cannot be listed; use a folder, or a bucket URL "
            "(s3://, gs:// or az://)"
        )
    root = text.rstrip("/")
    if root in (path.rstrip("/") for path in excluded):
        raise ConfigError(f"source.uri {text}: output.uri is the same prefix; give the output a prefix of its own")
    below = tuple(path.removeprefix(f"{root}/").rstrip("/") for path in excluded if path.startswith(f"{root}/"))
    return BucketSource(open_bucket(root), below, digests, tuple(ignore))
