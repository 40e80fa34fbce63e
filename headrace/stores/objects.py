"""An object store, or memory, as a store: S3, Google Cloud Storage, Azure and HTTP through obstore.

With a `Transfer`, obstore sends each request once, and `requests.StoreRequests` repeats those that fail. Without one,
obstore repeats them by its own rules.
"""

import contextlib
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.client import HTTPResponse  # at run time, for the API pages
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast
from urllib.parse import quote

from headrace.errors import ConfigError, FileChangedError, HeadraceError, NotFoundError
from headrace.signed_urls import SignedName
from headrace.stores import web_objects
from headrace.stores.client_errors import OtherRangeError, translated_errors
from headrace.stores.contents import PIECE_BYTES, Content, FetchResponse, StoredObject, checked_path, exactly, is_hidden
from headrace.stores.forked_obstore import keep_over_forks
from headrace.stores.own_host import stays_on_own_host
from headrace.stores.ranged_files import RawFile, copied, opened_by_ranges
from headrace.stores.requests import Transfer
from headrace.stores.retry_after import asked_pause

if TYPE_CHECKING:
    from obstore import GetOptions, ListStream, ObjectMeta
    from obstore.store import ObjectStore

T = TypeVar("T")

_MORE_ATTEMPTS = 3
_PAGE = 1000  # entries of a listing in one request
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_SIGNED_FOR = timedelta(minutes=1)
_UNKNOWN_TIME = datetime.fromtimestamp(0, UTC)


@dataclass(frozen=True, slots=True)
class ObjectStorage:
    """An object store (or memory) through obstore. Credentials and endpoints come from the environment (`AWS_…`).

    Each process makes a client on first use, also a forked process (`forked_obstore`). A pickled value holds no client,
    so the content of `memory://` is not pickled.

    With `signed`, the store has this one object, which is read by GET requests with its query: a signature is of one
    method and one object.
    """

    SCHEMES = ("s3", "gs", "az", "abfs", "http", "https", "memory")

    uri: str
    prefix: str = ""
    transfer: Transfer | None = None
    is_past_caches: bool = False
    signed: SignedName | None = field(default=None, repr=False)
    _client: "dict[int, ObjectStore]" = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of_signed(cls, url: str, transfer: Transfer | None) -> "ObjectStorage":
        """The folder of the object of a signed URL, with this object alone."""
        place, _, query = url.partition("?")
        folder, _, name = place.rpartition("/")
        return cls(folder, "", transfer, signed=SignedName(name, query))

    @classmethod
    def opened(cls, url: str, transfer: Transfer | None) -> "ObjectStorage":
        """The store of a URL. The key in the URL of a bucket is taken as it is spelled, also with `%`, `#` and `?`."""
        scheme, _, rest = url.partition("://")
        prefix = "" if scheme in {"http", "https", "memory"} else rest.partition("/")[2]
        return cls(url, prefix, transfer)

    def __reduce__(self) -> tuple[type["ObjectStorage"], tuple[object, ...]]:
        """Pickle without the client, whose sockets and threads cannot be pickled.

        Python before 3.11.4 replaces `__getstate__` of a dataclass with slots.
        """
        return ObjectStorage, (self.uri, self.prefix, self.transfer, self.is_past_caches, self.signed)

    @property
    def client(self) -> "ObjectStore":
        """The obstore client of this process. Raises `ConfigError` for a signed URL, which it cannot read."""
        from obstore.store import MemoryStore, from_url

        if self.signed is not None:
            raise ConfigError(f"{self.uri}/{self.signed.name}: a signed URL is read alone: for more, name the bucket")

        pid = os.getpid()
        if pid not in self._client:
            base = self._base
            try:
                made = MemoryStore() if base.startswith("memory:") else from_url(base, **self._options(base))
            except ValueError as error:  # of the parser of URLs
                raise ConfigError(f"{self.uri}: not the URL of a store: {error}; correct it") from error
            self._client[pid] = made
            keep_over_forks(self._client[pid])
        return self._client[pid]

    def at(self, folder: str) -> "ObjectStorage":
        """See `Storage.at`."""
        below = self._full(folder)
        return ObjectStorage(f"{self.uri}/{folder}", below, self.transfer, self.is_past_caches, None, self._client)

    @property
    def _base(self) -> str:
        """The URI that the client was made with."""
        return self.uri.removesuffix(f"/{self.prefix}") if self.prefix else self.uri

    def _options(self, base: str) -> dict[str, Any]:
        """Options of the client. Plain HTTP (a store inside a cluster) must be allowed explicitly."""
        options: dict[str, Any] = {"client_options": {}}
        endpoint = next((os.environ[name] for name in _ENDPOINTS if os.environ.get(name)), None)
        if (endpoint or base).startswith("http://"):
            options["client_options"]["allow_http"] = True
        if base.startswith("s3:"):
            options["client_options"] |= stays_on_own_host(endpoint)
        if self.is_past_caches:
            options["client_options"]["default_headers"] = {"Cache-Control": "no-cache", "Pragma": "no-cache"}
        if self.transfer is not None:
            limit = timedelta(seconds=self.transfer.timeout_seconds)
            options["client_options"] |= {"timeout": limit, "connect_timeout": limit}
            options["retry_config"] = {"max_retries": 0}
        return options

    def _full(self, path: str) -> str:
        return f"{self.prefix}/{checked_path(path)}" if self.prefix else checked_path(path)

    def local_path(self, path: str) -> None:
        """See `Storage.local_path`."""
        checked_path(path)

    def read(self, path: str) -> bytes:
        """See `Storage.read`."""
        import obstore

        full = self._full(path)
        return self._counted(
            self._answer(path, lambda client: bytes(obstore.get(client, full).bytes()), web_objects.read_whole)
        )

    def read_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """See `Storage.read_ranges`. Adjacent ranges are one request; requests are sent concurrently."""
        import obstore

        asked = list(dict.fromkeys(span for span in ranges if span[0] < span[1]))  # obstore rejects empty ranges
        if not asked:
            return [b""] * len(ranges)
        full, starts, ends = self._full(path), [start for start, _ in asked], [stop for _, stop in asked]
        blobs = self._answer(
            path,
            lambda client: list(map(bytes, obstore.get_ranges(client, full, starts=starts, ends=ends, coalesce=0))),
            lambda url, limit: [web_objects.read_range(url, *span, limit) for span in asked],
        )
        found = {span: self._counted(exactly(blob, *span, path)) for span, blob in zip(asked, blobs, strict=True)}
        return [found.get(span, b"") for span in ranges]

    def fetch(
        self,
        path: str,
        accept: Callable[[StoredObject], None],
        span: tuple[int, int] | None = None,
        tag: str | None = None,
    ) -> FetchResponse:
        """An object or a part of it, by one request, with the size and time of the object that the bytes are from.

        Args:
            path: the object.
            accept: called with the object before its bytes are received; it raises an error to refuse them.
            span: half-open range of bytes, not empty; None for the whole object.
            tag: the ETag that the object must have; None for any.

        Raises:
            NotFoundError: there is no such object.
            FileChangedError: the object has another ETag than `tag`.
            Exception: what `accept` raises.
        """
        import obstore

        options: GetOptions = {}
        if span is not None:
            options["range"] = span
        if tag is not None:
            options["if_match"] = tag

        def request(client: "ObjectStore") -> FetchResponse:
            try:
                answer = obstore.get(client, self._full(path), options=options)
            except obstore.exceptions.PreconditionError as error:
                raise FileChangedError(f"{path} in {self.uri}: the object changed while it was read") from error
            meta = answer.meta
            entry = _entry(path, meta)
            accept(entry)
            return FetchResponse(bytes(answer.bytes()), entry, meta["e_tag"])

        found = self._answer(path, request)
        self._counted(found.data)
        return found

    def open(self, path: str) -> BinaryIO:
        """See `Storage.open`."""
        return opened_by_ranges(self, path, PIECE_BYTES)

    def size(self, path: str) -> int:
        """See `Storage.size`."""
        return self.stat(path).num_bytes

    def stat(self, path: str) -> StoredObject:
        """See `Storage.stat`."""
        found = self._head(path)
        return _entry(path, found)

    def version(self, path: str) -> str:
        """See `Storage.version`."""
        found = self._head(path)
        return f"{found['size']}-{found['e_tag'] or found['last_modified'].isoformat()}"

    def exists(self, path: str) -> bool:
        """See `Storage.exists`."""
        try:
            self.size(path)
        except NotFoundError:
            return False
        return True

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """See `Storage.list`. The whole listing is received first, because not every store sorts by path."""
        entries = (entry for page in self.pages(prefix) for entry in page)
        found = {entry.path: entry for entry in entries if not is_hidden(entry.path, prefix)}
        yield from (found[path] for path in sorted(found))

    def pages(self, prefix: str = "") -> Iterator[Sequence[StoredObject]]:
        """The objects of `list` and hidden ones, in the order of the store: of one response at a time, as it arrives.

        A page may be empty.
        """
        folder = prefix.rpartition("/")[0]
        below = self._full(folder) if folder else (self.prefix or None)
        strip = len(self.prefix) + 1 if self.prefix else 0
        start = f"{self.prefix}/{prefix}" if self.prefix else prefix
        for page in self._listed(prefix, below, start):
            yield [_entry(meta["path"][strip:], meta) for meta in page]

    def write(self, path: str, data: Content) -> None:
        """See `Storage.write`."""
        import obstore

        # obstore reads a file within its runtime, from which no object can be read
        is_object = isinstance(getattr(data, "raw", None), RawFile)
        with copied(cast("BinaryIO", data)) if is_object else contextlib.nullcontext(data) as content:
            joined = b"".join(content) if isinstance(content, list) else content
            with translated_errors(path, self.uri):
                obstore.put(self.client, self._full(path), joined)

    def create(self, path: str, data: bytes) -> None:
        """See `Storage.create`. One PUT, because S3 stores support this condition for no multipart upload."""
        import obstore

        with translated_errors(path, self.uri):
            obstore.put(self.client, self._full(path), data, mode="create", use_multipart=False)

    def delete(self, path: str) -> None:
        """See `Storage.delete`."""
        import obstore

        with contextlib.suppress(NotFoundError), translated_errors(path, self.uri):
            obstore.delete(self.client, self._full(path))

    def _head(self, path: str) -> "ObjectMeta":
        import obstore

        full = self._full(path)

        def without_head(url: str, limit: float) -> "ObjectMeta":
            size, tag = web_objects.size_and_tag(url, limit)
            return {"path": full, "size": size, "last_modified": _UNKNOWN_TIME, "e_tag": tag, "version": None}

        return self._answer(path, lambda client: obstore.head(client, full), without_head)

    def _listed(self, prefix: str, below: str | None, start: str) -> "Iterator[Sequence[ObjectMeta]]":
        """Objects whose key begins with `start`, page by page; stores list keys in order.

        The listing begins shortly before `start` and ends after it, so that one partition among very many costs one
        page. After a failure it continues after the last page, so that no object is listed twice.
        """
        import obstore

        stream: ListStream[Sequence[ObjectMeta]] | None = None
        last = _just_before(start)

        def next_page(client: "ObjectStore") -> "Sequence[ObjectMeta] | None":
            nonlocal stream
            pages, stream = stream or obstore.list(client, below, offset=last, chunk_size=_PAGE), None
            page = next(pages, None)
            stream = pages  # a listing that failed is not continued
            return page

        while page := self._answer(prefix, next_page):
            yield [meta for meta in page if meta["path"].startswith(start)]
            last = max(meta["path"] for meta in page)
            if last > start and not last.startswith(start):
                return

    def streamed(self, path: str) -> contextlib.AbstractContextManager[HTTPResponse]:
        """The answer to a request for a whole object of a web server, to be read from front to end."""
        return web_objects.opened(self._url(path), self._timeout_seconds)

    @property
    def _timeout_seconds(self) -> float:
        return (self.transfer or Transfer()).timeout_seconds

    def _answer(
        self,
        path: str,
        request: "Callable[[ObjectStore], T]",
        of_odd_server: Callable[[str, float], T] | None = None,
    ) -> T:
        """The result of a request, which is sent again while the store fails, as `transfer` says.

        Args:
            path: the object.
            request: sends the request by obstore.
            of_odd_server: sends it by `web_objects`, given the URL and a time limit, if obstore rejects the answer.
        """

        def once() -> T:
            if self.signed is not None and of_odd_server is not None:
                return self._of_signed(path, of_odd_server)
            with translated_errors(path, self.uri):
                try:
                    return request(self.client)
                except Exception as error:
                    if of_odd_server is None or not web_objects.is_odd(error, self.uri):
                        raise
                return of_odd_server(self._url(path), self._timeout_seconds)

        return self.retried(path, once)

    def _of_signed(self, path: str, request: Callable[[str, float], T]) -> T:
        """The result of a request for the one object of a signed URL."""
        assert self.signed is not None
        if path != self.signed.name:
            raise NotFoundError(f"{self.uri}/{path}: the signed URL is of {self.signed.name} alone")
        return request(self._url(path), self._timeout_seconds)

    def retried(self, path: str, once: Callable[[], T]) -> T:
        """The result of `once`, which is called again while it raises `StoreUnavailableError`, as `transfer` says."""
        if self.transfer is None:
            for _ in range(_MORE_ATTEMPTS):  # obstore has repeated all other failures
                with contextlib.suppress(OtherRangeError):
                    return once()
            return once()
        requests, retries = self.transfer.requests, self.transfer.retries
        what = f"{self.uri}/{path}" if path else self.uri
        return requests.done(once, retries, self._base, what, lambda: asked_pause(self._url(path)))

    def _counted(self, blob: bytes) -> bytes:
        if self.transfer is not None:
            self.transfer.requests.received(len(blob))
        return blob

    def _url(self, path: str) -> str:
        """URL of an object for any HTTP client; empty if the store cannot make one."""
        import obstore

        if self.signed is not None:
            return f"{self.uri}/{self.signed.name}?{self.signed.query}"
        if self._base.startswith(("http://", "https://")):
            return f"{self.uri}/{quote(path)}"
        try:
            with translated_errors(path, self.uri):
                client = cast("Any", self.client)  # obstore raises an error for stores that cannot sign
                return str(obstore.sign(client, "GET", self._full(path) if path else self.prefix, _SIGNED_FOR))
        except (HeadraceError, ValueError):
            return ""


def _just_before(start: str) -> str | None:
    """A key just before those that begin with `start`; None to list from the first key."""
    return start[:-1] + chr(ord(start[-1]) - 1) if start.isascii() and start[-1:] > " " else None


def _entry(path: str, meta: "ObjectMeta") -> StoredObject:
    return StoredObject(path, meta["size"], meta["last_modified"].timestamp(), meta["e_tag"])
