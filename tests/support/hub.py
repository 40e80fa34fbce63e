"""A server with the Hub's URLs and headers: it redirects to another port, pages listings, limits, and checks tokens."""

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit

from tests.support.web_server import Reply, Request, web_servers

TOKEN = "hf_secret-of-the-user"
REPOSITORIES = {
    "datasets/birds/songs": "/datasets/birds/songs",
    "birds/model": "/birds/model",
    "spaces/birds/space": "",
}
BUCKET = "buckets/birds/bucket"
COMMITS = ("a" * 40, "b" * 40)
SMALL = 100  # files up to this size are answered by the Hub itself


@dataclass(slots=True)
class Hub:
    """The state of the server; one repository under several kinds, whose commits are folders.

    Attributes:
        folder: holds a folder for each commit.
        main: the commit of the branch `main`.
        is_private: whether requests need the token.
        page: entries of a page of a listing.
        limits: how many requests to `resolve` are still answered with 429.
        signed_for: seconds until a signature expires.
        asked: the requests to the Hub.
        sent: the requests to the other host.
        revoked: signatures that are rejected before they expire.
        latency: seconds before each answer.
        num_bytes: bytes of answers to ranges.
        altered: makes the answer to a request, of both hosts, from the right one.
    """

    folder: Path
    main: str = COMMITS[0]
    is_private: bool = False
    page: int = 2
    limits: int = 0
    signed_for: float = 1000.0
    urls: list[str] = field(default_factory=list)
    asked: list[Request] = field(default_factory=list)
    sent: list[Request] = field(default_factory=list)
    revoked: set[str] = field(default_factory=set)
    latency: float = 0.0
    num_bytes: int = 0
    altered: Callable[[Request, Reply], Reply] = lambda _, reply: reply

    def commit_of(self, revision: str) -> str | None:
        """The commit of a revision; None if there is no such revision."""
        if revision in COMMITS:
            return revision
        return {"main": self.main, "refs/pr/1": COMMITS[1]}.get(revision)

    def resolved(self) -> list[str]:
        """The paths that the Hub was asked to resolve."""
        return [one.path for one in self.asked if "/resolve/" in one.path]


@contextmanager
def hub_server(folder: Path) -> Iterator[Hub]:
    """Serve the folders of commits as the Hub does, and their bytes on another port."""
    hub = Hub(folder)
    own, others = _OfHub(hub), _OfBytes(hub)
    with web_servers(
        lambda request: hub.altered(request, own.reply(request)),
        lambda request: hub.altered(request, others.reply(request)),
    ) as servers:
        hub.urls += servers
        yield hub


class _Answering:
    def __init__(self, hub: Hub) -> None:
        self.hub = hub

    def _send(self, status: int, body: bytes = b"", **headers: str) -> Reply:
        return Reply(status, {name.replace("_", "-"): value for name, value in headers.items()}, body, self.hub.latency)

    def _file(self, request: Request, path: Path, **headers: str) -> Reply:
        if (span := request.headers.get("Range")) is None:
            return self._send(200, path.read_bytes(), **headers)
        start, stop = map(int, span.removeprefix("bytes=").split("-"))
        with open(path, "rb", buffering=0) as file:  # noqa: PTH123 - in a third of the time of pathlib's
            size, part = os.fstat(file.fileno()).st_size, os.pread(file.fileno(), stop + 1 - start, start)
        self.hub.num_bytes += len(part)
        return self._send(206, part, Content_Range=f"bytes {start}-{start + len(part) - 1}/{size}", **headers)


class _OfHub(_Answering):
    def reply(self, request: Request) -> Reply:
        self.hub.asked.append(request)
        if self.hub.is_private and request.headers.get("Authorization") != f"Bearer {TOKEN}":
            return self._send(401, X_Error_Code="RepoNotFound", X_Error_Message="Invalid username or password.")
        url = urlsplit(request.path)
        path = url.path.strip("/")
        if path.startswith("api/"):
            return self._api(request, path.removeprefix("api/").replace("models/", ""), parse_qs(url.query))
        name, _, rest = path.partition("/resolve/")
        if name == "datasets/old/songs":
            return self._send(307, Location=request.path.replace("old", "birds"))
        if name == BUCKET:
            return self._resolve(request, self.hub.main, rest, has_commits=False)
        revision, _, file = rest.partition("/")
        commit = self.hub.commit_of(unquote(revision))
        if name not in REPOSITORIES or commit is None:
            return self._send(404, X_Error_Code="RepoNotFound" if commit else "RevisionNotFound")
        return self._resolve(request, commit, file, has_commits=True)

    def _resolve(self, request: Request, commit: str, quoted: str, *, has_commits: bool) -> Reply:
        if self.hub.limits:
            self.hub.limits -= 1
            return self._send(429, Retry_After="1")
        path = self.hub.folder / commit / unquote(quoted)
        if not path.is_file():
            return self._send(404, X_Error_Code="EntryNotFound")
        digest = _digest(path)
        headers = {"X_Repo_Commit": commit} if has_commits else {"X_Xet_Hash": digest}
        if path.stat().st_size <= SMALL:
            return self._file(request, path, ETag=f'"{digest}"', **headers)
        until = int(time.time() + self.hub.signed_for)
        place = f"{self.hub.urls[1]}/{commit}/{quoted}?Expires={until}&Signature=s{len(self.hub.asked)}"
        headers |= {"X_Linked_Size": str(path.stat().st_size), "X_Linked_ETag": f'"{digest}"'}
        return self._send(302, Location=place, **headers)

    def _api(self, request: Request, path: str, query: dict[str, list[str]]) -> Reply:
        name, _, rest = path.partition("/revision/") if "/revision/" in path else path.partition("/tree")
        if name not in {*REPOSITORIES, BUCKET}:
            return self._send(404, X_Error_Code="RepoNotFound", X_Error_Message="Repository not found")
        if "/revision/" in path:
            commit = self.hub.commit_of(unquote(rest))
            if commit is None:
                return self._send(404, X_Error_Code="RevisionNotFound", X_Error_Message=f"Invalid rev id: {rest}")
            return self._send(200, json.dumps({"sha": commit}).encode())
        parts = [unquote(part) for part in rest.strip("/").split("/")]
        commit = self.hub.main if name == BUCKET else self.hub.commit_of(parts.pop(0)) or ""
        return self._tree(request, name, commit, "/".join(parts), int(query.get("cursor", ["0"])[0]))

    def _tree(self, request: Request, name: str, commit: str, folder: str, start: int) -> Reply:
        root = self.hub.folder / commit
        if not (root / folder).is_dir() and name != BUCKET:
            return self._send(404, X_Error_Code="EntryNotFound")
        found = [self._entry(name, root, path) for path in sorted((root / folder).rglob("*"), reverse=True)]
        page, stop = found[start : start + self.hub.page], start + self.hub.page
        more = f'<{self.hub.urls[0]}{urlsplit(request.path).path}?recursive=true&cursor={stop}>; rel="next"'
        return self._send(200, json.dumps(page).encode(), **({"Link": more} if stop < len(found) else {}))

    def _entry(self, name: str, root: Path, path: Path) -> dict[str, object]:
        entry = {"path": str(path.relative_to(root)), "oid": "0", "size": 0}
        if path.is_dir():
            return entry | {"type": "directory"}
        entry |= {"type": "file", "size": path.stat().st_size}
        if name == BUCKET:
            return entry | {"xetHash": _digest(path)}
        return entry | ({"oid": _digest(path)} if entry["size"] <= SMALL else {"lfs": {"oid": _digest(path)}})


class _OfBytes(_Answering):
    def reply(self, request: Request) -> Reply:
        self.hub.sent.append(request)
        url = urlsplit(request.path)
        query = parse_qs(url.query)
        if int(query["Expires"][0]) < time.time() or query["Signature"][0] in self.hub.revoked:
            return self._send(403)
        return self._file(request, self.hub.folder / unquote(unquote(url.path)).lstrip("/"))


def _digest(path: Path) -> str:
    return _digest_at(path, path.stat().st_mtime_ns)


@cache
def _digest_at(path: Path, _time_ns: int) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
