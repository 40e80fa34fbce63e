"""The protocols `Source` and `Corpus` (places that hold recordings), and the functions that open them.

`open_source` opens a folder (`headrace.sources.folder_source`) or a bucket (`headrace.sources.bucket_source`);
`open_corpus` opens a corpus of any kind (`headrace.source_kinds`). A source lists and opens files. It does not look at
their audio.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO, Protocol

from headrace.config.source import Digests, SourceConfig
from headrace.errors import ConfigError
from headrace.source_kinds import FILES, SourceKind, source_kind
from headrace.sources.bucket_source import BucketSource
from headrace.sources.content_digests import DigestedFile
from headrace.sources.corpus_rows import CorpusRows
from headrace.sources.folder_source import open_folder
from headrace.sources.listing import FileStamp, Listing
from headrace.sources.named_files import forget_commits
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


class Corpus(Source, Protocol):
    """A source that may have rows of its own.

    `headrace.testing.CorpusContract` has the tests that each corpus has to pass.
    """

    def rows(self) -> CorpusRows | None:
        """The rows of the corpus; None if it has none, and each file is a recording."""


def corpus_of(config: SourceConfig, root: str, *, exclude: Sequence[str] = ()) -> Corpus:
    """Open the source of a data set; `root` is its `uri` as an absolute path or a URL. See `open_corpus`."""
    if config.kind != FILES:
        return open_corpus(config.kind, root, config.options, exclude=exclude)
    return open_source(
        root, exclude=exclude, digests=config.digests, ignore=config.ignore, follow_links=config.follow_links
    )


def open_corpus(kind: str, uri: str, options: Mapping[str, Any], *, exclude: Sequence[str] = ()) -> Corpus:
    """Open a corpus.

    Args:
        kind: `source.kind`.
        uri: `source.uri` as an absolute path or a URL.
        options: `source.options`.
        exclude: paths below the URI that are not part of the corpus, such as the output.

    Raises:
        ConfigError: there is no such kind, an option is unknown or invalid, or the corpus is not there.
    """
    found = source_kind(kind)
    forget_commits()  # a daemon opens a corpus again to see what changed
    corpus: Corpus = found.open(uri, found.options.model_validate(options), exclude)
    return corpus


def open_source(
    uri: str | os.PathLike[str],
    *,
    exclude: Sequence[str | os.PathLike[str]] = (),
    digests: Digests = Digests.READ,
    ignore: Sequence[str] = (),
    follow_links: bool = False,
) -> Corpus:
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


def _open_files(uri: str, _options: object, exclude: Sequence[str]) -> Corpus:
    return open_source(uri, exclude=exclude)


FILES_KIND = SourceKind(_open_files, has_rows=False, columns={})
"""The kind `files`."""
