"""Repositories and buckets of the Hugging Face Hub as a store that is read: `hf://datasets/OWNER/NAME@REVISION/…`.

A store is opened at one commit, which its URL then names; a bucket has no commits. The Hub redirects requests for files
to other hosts, by URLs with signatures that expire; these are kept until then, because the Hub limits how often it may
be asked.
"""

import contextlib
import functools
import hashlib
import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from http.client import HTTPResponse
from typing import Any, BinaryIO, NoReturn, TypeVar
from urllib.parse import urljoin

from headrace.errors import FileChangedError, NotFoundError, StorageError, StoreUnavailableError
from headrace.stores import web_objects
from headrace.stores.concurrent_requests import map_on_threads
from headrace.stores.contents import Content, FetchResponse, StoredObject, checked_path, exactly, is_hidden
from headrace.stores.hub_requests import Answer, Repository, asked, parsed_name, token_for
from headrace.stores.ranged_files import opened_by_ranges
from headrace.stores.requests import Transfer

T = TypeVar("T")

_COMMIT = re.compile(r"[0-9a-f]{40}|")
_PIECE_BYTES = 4 << 20  # each piece is a request of its own
_MOST_KEPT = 4096
_KEPT_SECONDS, _MARGIN_SECONDS = 300.0, 30.0
_EXPIRES = re.compile(r"[?&](X-Amz-)?Expires=(\d+)")
_NEXT = re.compile(r'<([^>]+)>\s*;\s*rel="?next"?')


def pinned(name: str, transfer: Transfer | None = None, commit: str | None = None) -> str:
    """A `hf://` URL with the commit that its revision has now; every other name as it is.

    Args:
        name: any name of a data set, also of a list of tars (`name_of_tars`). A commit in it stays.
        transfer: how requests are sent and repeated.
        commit: the commit to name instead of asking the Hub.

    Raises:
        ConfigError: the URL names no repository.
        StorageError: there is no such repository or revision, or the token may not read it.
    """
    if not name.startswith("hf://"):
        return name
    root, mark, names = name.partition("\n")  # of a list of tars
    repository, path = parsed_name(root)
    if _COMMIT.fullmatch(repository.revision):
        return name
    uri = replace(repository, revision=commit or _commit_of(repository, transfer or Transfer())).uri
    return f"{uri}/{path}{mark}{names}" if path else f"{uri}{mark}{names}"


def revision_of(storage: object) -> str | None:
    """The commit that a store is opened at; None for stores without commits."""
    return (storage.repository.revision or None) if isinstance(storage, HubStorage) else None


@dataclass(frozen=True, slots=True)
class _File:
    """A file's URL, which is signed and valid until a Unix time, its size and the digest of its content (ETag)."""

    url: str
    until: float
    num_bytes: int
    tag: str


@dataclass(frozen=True, slots=True)
class HubStorage:
    """A folder of a repository or a bucket of the Hub (`Storage`), which is read only.

    Listings have no times. So `modified_seconds` is a number in the 1970s that depends on the content alone.
    """

    repository: Repository
    prefix: str = ""
    transfer: Transfer = field(default_factory=Transfer)
    _kept: dict[str, _File] = field(default_factory=dict, repr=False, compare=False)
    _missing: set[str] = field(default_factory=set, repr=False, compare=False)  # URLs; a commit gets no new folders

    @classmethod
    def opened(cls, url: str, transfer: Transfer | None) -> "HubStorage":
        """The store of a URL, at the commit that its revision has now. Raises as `pinned`."""
        return cls(*parsed_name(pinned(url, transfer)), transfer or Transfer())

    def __reduce__(self) -> tuple[type["HubStorage"], tuple[object, ...]]:
        """Pickle without signed URLs."""
        return type(self), (self.repository, self.prefix, self.transfer)

    @property
    def uri(self) -> str:
        """See `Storage.uri`; it names the commit."""
        return f"{self.repository.uri}/{self.prefix}" if self.prefix else self.repository.uri

    def at(self, folder: str) -> "HubStorage":
        """See `Storage.at`."""
        return HubStorage(self.repository, self._full(folder), self.transfer, self._kept, self._missing)

    def local_path(self, path: str) -> None:
        """See `Storage.local_path`."""
        checked_path(path)

    def read(self, path: str) -> bytes:
        """See `Storage.read`. An answer with another number of bytes than the file has is not taken."""

        def whole(file: _File, limit: float, token: str | None) -> bytes:
            return exactly(web_objects.read_whole(file.url, limit, token), 0, file.num_bytes, path)

        return self._bytes(path, whole)

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage.read_ranges`. Several requests are sent at once."""

        def of_one(span: tuple[int, int]) -> bytes:
            blob = self._bytes(path, lambda file, limit, token: web_objects.read_range(file.url, *span, limit, token))
            return exactly(blob, *span, path)

        wanted = list(dict.fromkeys(span for span in ranges if span[0] < span[1]))
        found = dict(zip(wanted, map_on_threads(of_one, wanted, "range"), strict=True))
        return [found.get(span, b"") for span in ranges]

    def fetch(
        self,
        path: str,
        accept: Callable[[StoredObject], None],
        span: tuple[int, int] | None = None,
        tag: str | None = None,
    ) -> FetchResponse:
        """See `ObjectStorage.fetch`."""
        file, entry = self._file(path), self.stat(path)
        accept(entry)
        if tag not in {None, file.tag}:
            raise FileChangedError(f"{path} in {self.uri}: the object changed while it was read")
        return FetchResponse(self.read(path) if span is None else self.read_ranges(path, [span])[0], entry, file.tag)

    def open(self, path: str) -> BinaryIO:
        """See `Storage.open`."""
        return opened_by_ranges(self, path, _PIECE_BYTES)

    def size(self, path: str) -> int:
        """See `Storage.size`."""
        return self._file(path).num_bytes

    def stat(self, path: str) -> StoredObject:
        """See `Storage.stat`."""
        file = self._file(path)
        return StoredObject(path, file.num_bytes, _seconds_of(file.tag))

    def version(self, path: str) -> str:
        """See `Storage.version`."""
        file = self._file(path)
        return f"{file.num_bytes}-{file.tag}"

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        try:
            return bool(self._file(path))
        except NotFoundError:
            return False

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """See `Storage.list`."""
        entries = (entry for page in self.pages(prefix) for entry in page)
        yield from sorted((one for one in entries if not is_hidden(one.path, prefix)), key=lambda entry: entry.path)

    def pages(self, prefix: str = "") -> Iterator[Sequence[StoredObject]]:
        """See `ObjectStorage.pages`."""
        start = f"{self.prefix}/{prefix}" if self.prefix else prefix
        folder = start.rpartition("/")[0]
        url = f"{self.repository.url_of_api('tree', self.repository.revision, folder)}?recursive=true"
        asked_pages = set[str]()
        while url and url not in self._missing:
            if url in asked_pages:
                raise StorageError(f"{self.uri}: its listing has no end: a page is followed by itself")
            try:
                answer = self.retried(prefix, functools.partial(self._asked, url))
            except NotFoundError as error:  # a folder that is not there
                if asked_pages:
                    raise StorageError(f"{self.uri}: a page of its listing is not there: list it again") from error
                if not self.repository.is_bucket:
                    self._missing.add(url)
                return
            with _as_answered(self.uri):
                listed = json.loads(answer.content)
                if not isinstance(listed, list):
                    raise TypeError(f"expected a list, not {type(listed).__name__}")
                found = [one for one in listed if one["type"] == "file"]
                entries = [self._entry(one) for one in found if one["path"].startswith(start)]
            yield entries
            asked_pages.add(url)
            following = _NEXT.search(answer.headers.get("Link", ""))
            url = urljoin(url, following[1]) if following else ""

    def write(self, path: str, data: Content) -> NoReturn:  # noqa: ARG002 - of the protocol
        """Raise `StorageError`: the Hub is not written to."""
        raise StorageError(
            f"{path} in {self.uri}: the Hub is read, not written to: name a local folder or a bucket (s3://, gs://, "
            "az://), and upload that with the Hub's own tools"
        )

    def create(self, path: str, data: bytes) -> NoReturn:
        """Raise `StorageError`, as `write`."""
        self.write(path, data)

    def delete(self, path: str) -> NoReturn:
        """Raise `StorageError`, as `write`."""
        self.write(path, b"")

    def retried(self, path: str, once: Callable[[], T]) -> T:
        """The result of `once`, called again while it raises `StoreUnavailableError`, as `transfer` says."""
        what = f"{self.uri}/{path}" if path else self.uri
        return self.transfer.requests.done(once, self.transfer.retries, self.repository.uri, what)

    def streamed(self, path: str) -> AbstractContextManager[HTTPResponse]:
        """The answer to a request for a whole file, to be read from front to end."""
        url = self._file(path).url
        return web_objects.opened(url, self.transfer.timeout_seconds, "", token_for(url))

    def _full(self, path: str) -> str:
        return f"{self.prefix}/{checked_path(path)}" if self.prefix else checked_path(path)

    def _asked(self, url: str, method: str = "GET", path: str = "") -> Answer:
        return asked(url, f"{self.repository.uri}/{path or self.prefix}", self.transfer.timeout_seconds, method)

    def _entry(self, listed: dict[str, Any]) -> StoredObject:
        tag = listed["xetHash"] if self.repository.is_bucket else (listed.get("lfs") or listed)["oid"]
        path = listed["path"][len(self.prefix) + 1 if self.prefix else 0 :]
        return StoredObject(path, listed["size"], _seconds_of(f'"{tag}"'))

    def _file(self, path: str) -> _File:
        """Find where the bytes of a file are now."""
        return self.retried(path, lambda: self._file_once(self._full(path)))

    def _file_once(self, full: str) -> _File:
        found = self._kept.get(full)
        if found is None or found.until < time.time():
            found = self._resolved(full)
            if len(self._kept) >= _MOST_KEPT:
                self._kept.clear()
            self._kept[full] = found
        return found

    def _resolved(self, full: str) -> _File:
        answer = self._asked(self.repository.url_of_file(full), "HEAD", full)
        own_size = None if "Location" in answer.headers else answer.headers.get("Content-Length")
        size = answer.headers.get("X-Linked-Size", own_size)
        if size is None:
            raise StorageError(f"{self.repository.uri}/{full}: the Hub does not say its size")
        names = [*(["X-Xet-Hash"] if self.repository.is_bucket else []), "X-Linked-Etag", "ETag"]
        tag = next((answer.headers[name] for name in names if name in answer.headers), "")
        tag = tag.removeprefix("W/").strip('"')
        with _as_answered(self.uri):
            return _File(answer.url, _expiry_of(answer.url), int(size), f'"{tag}"')

    def _bytes(self, path: str, request: Callable[[_File, float, str | None], bytes]) -> bytes:
        """The result of a request for bytes, sent again while the host fails.

        A host may reject a URL that was kept before its time; then the Hub is asked for another one, once.
        """
        full = self._full(path)

        def sent() -> bytes:
            file = self._file_once(full)
            return request(file, self.transfer.timeout_seconds, token_for(file.url))

        def once() -> bytes:
            was_kept = full in self._kept
            try:
                return sent()
            except (NotFoundError, StoreUnavailableError, web_objects.NoRangesError):
                raise
            except StorageError:
                self._kept.pop(full, None)
                if not was_kept:
                    raise
            return sent()

        blob = self.retried(path, once)
        self.transfer.requests.received(len(blob))
        return blob


def _commit_of(repository: Repository, transfer: Transfer) -> str:
    storage, url = HubStorage(repository, "", transfer), repository.url_of_api("revision", repository.revision)
    answer = storage.retried("", lambda: asked(f"{url}?expand=sha", repository.uri, transfer.timeout_seconds))
    with _as_answered(repository.uri):
        return str(json.loads(answer.content)["sha"])


@contextlib.contextmanager
def _as_answered(uri: str) -> Iterator[None]:
    """Turn a fault of an answer's form into a `StorageError`."""
    try:
        yield
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise StorageError(f"{uri}: the answer is not one of the Hub ({error!r}): check HF_ENDPOINT") from error


def _expiry_of(url: str) -> float:
    """The Unix time until which a URL is used: shortly before its signature expires, if it says when that is."""
    found, now = _EXPIRES.search(url), time.time()
    if found is None:
        return now + _KEPT_SECONDS
    return (now if found[1] else 0.0) + float(found[2]) - _MARGIN_SECONDS


def _seconds_of(tag: str) -> float:
    """A time in the 1970s that depends on the content, see `HubStorage`."""
    return float(int.from_bytes(hashlib.sha256(tag.encode()).digest()[:4], "big") >> 4)
