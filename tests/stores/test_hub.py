"""Repositories and buckets of the Hugging Face Hub as a store, on a server that answers as the Hub does."""

import contextlib
import gzip
import os
import pickle
import threading
import time
from email.message import Message

import pytest

from headrace.errors import (
    ConfigError,
    FileChangedError,
    NotFoundError,
    StorageError,
    StoreUnavailableError,
    UnsafePathError,
)
from headrace.sources.bucket_source import BucketSource
from headrace.stores import web_objects
from headrace.stores.hub import HubStorage, pinned
from headrace.stores.hub_requests import Answer, parsed_name, token_for
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import Transfer, open_storage
from headrace.stores.waiting import waits_end_with
from tests.support.hub import COMMITS, TOKEN, hub_server
from tests.support.web_server import Reply

BLOB = bytes(range(256)) * 8
PLACES = ("hf://datasets/birds/songs", "hf://birds/model", "hf://spaces/birds/space", "hf://buckets/birds/bucket")
SONGS = PLACES[0]


@pytest.fixture
def hub(tmp_path, monkeypatch):
    """A server with two commits, which nobody's own token or address leads elsewhere."""
    for number, commit in enumerate(COMMITS):
        for name in ("data/a.bin", "data/ä b#1.bin", "data/sub/c.bin", "database.bin"):
            path = tmp_path / "hub" / commit / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(BLOB[number:])
        (tmp_path / "hub" / commit / "data/small.json").write_bytes(b'{"a": 1}')
    with hub_server(tmp_path / "hub") as server:
        monkeypatch.setenv("HF_ENDPOINT", server.urls[0])
        monkeypatch.setenv("HF_HOME", str(tmp_path / "home"))
        for name in ("HF_TOKEN", "HF_TOKEN_PATH"):
            monkeypatch.delenv(name, raising=False)
        yield server


@pytest.mark.parametrize("place", PLACES)
def test_a_folder_is_read_and_listed_whatever_kind_it_is_of(hub, place):
    storage = open_storage(f"{place}/data")
    assert storage.read("a.bin") == BLOB
    assert storage.read("ä b#1.bin") == BLOB
    assert storage.read("small.json") == b'{"a": 1}'
    assert storage.read_ranges("a.bin", [(5, 9), (0, 0), (2, 3), (5, 9)]) == [BLOB[5:9], b"", BLOB[2:3], BLOB[5:9]]
    with storage.open("a.bin") as file:
        file.seek(-4, os.SEEK_END)
        assert file.read() == BLOB[-4:]
    assert storage.size("a.bin") == len(BLOB)
    assert [entry.path for entry in storage.list()] == ["a.bin", "small.json", "sub/c.bin", "ä b#1.bin"]
    assert [entry.path for entry in storage.list("s")] == ["small.json", "sub/c.bin"]
    assert [entry.path for entry in storage.at("sub").list()] == ["c.bin"]
    assert list(storage.list("not/there/")) == []
    assert not storage.exists("b.bin")
    with pytest.raises(NotFoundError, match=r"hf://.*data/b\.bin"):
        storage.read("b.bin")
    with pytest.raises(UnsafePathError):
        storage.read("../database.bin")


@pytest.mark.parametrize("place", PLACES)
def test_an_entry_of_a_listing_is_that_of_the_file_and_changes_with_its_content(hub, place):
    storage = open_storage(f"{place}/data")
    before = {entry.path: entry for entry in storage.list()}
    assert storage.stat("a.bin") == before["a.bin"]
    assert storage.stat("small.json") == before["small.json"]
    hub.main = COMMITS[1]
    after = {entry.path: entry for entry in open_storage(f"{place}/data").list()}
    assert after["small.json"] == before["small.json"]
    assert after["a.bin"].modified_seconds != before["a.bin"].modified_seconds
    assert after["a.bin"].modified_seconds < 2**28


def test_ranges_that_fail_are_given_up_with_the_waits_of_their_reader(hub, monkeypatch):
    """They would be requested again for two minutes, and a process that ends would wait for them."""
    storage, end, asked = open_storage(f"{SONGS}/data"), threading.Event(), threading.Semaphore(0)

    def fail(*_):
        asked.release()
        raise StoreUnavailableError("down")

    def read():
        with waits_end_with(end), contextlib.suppress(StoreUnavailableError):
            storage.read_ranges("a.bin", [(0, 1), (2, 3)])

    monkeypatch.setattr(web_objects, "read_range", fail)
    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(4):
        asked.acquire()
    end.set()
    reader.join(30)
    assert not reader.is_alive()


def test_a_store_stays_at_the_commit_that_it_was_opened_at(hub):
    storage = open_storage(f"{SONGS}/data")
    hub.main = COMMITS[1]
    assert storage.uri == f"{SONGS}@{COMMITS[0]}/data"
    for one in (storage, pickle.loads(pickle.dumps(storage)), open_storage(storage.uri), storage.at("sub")):
        assert one.read("a.bin" if one.prefix == "data" else "c.bin") == BLOB
    assert open_storage(f"{SONGS}/data").read("a.bin") == BLOB[1:]
    assert BucketSource(storage).uri == f"{SONGS}/data"


@pytest.mark.parametrize("revision", ["refs/pr/1", "refs%2Fpr%2F1", COMMITS[1]])
def test_a_revision_is_read_as_it_is_named(hub, revision):
    assert open_storage(f"{SONGS}@{revision}").uri == f"{SONGS}@{COMMITS[1]}"
    assert pinned(f"{SONGS}@{revision}/{{a,b}}-*.tar") == f"{SONGS}@{COMMITS[1]}/{{a,b}}-*.tar"


@pytest.mark.parametrize("name", ["/data/a", "s3://b/hf://", "hf://buckets/birds/bucket/a@b"])
def test_a_name_without_revisions_stays(name):
    assert pinned(name) == name


@pytest.mark.parametrize(
    "name",
    ["hf://imdb", "hf://datasets/imdb", "hf://datasets//songs", "hf://buckets/a/b@main", "hf://", "hf://models/a/b"],
)
def test_a_name_without_an_owner_is_refused_with_the_way_out(name):
    with pytest.raises(ConfigError, match=r"hf://datasets/OWNER/NAME/PATH.*without an owner is an old alias"):
        open_storage(name)


def test_redirects_are_kept_until_they_expire_and_replaced_when_they_are_refused(hub):
    storage = open_storage(f"{SONGS}/data")
    for start in range(3):
        storage.read_ranges("a.bin", [(start, start + 1)])
    assert len(hub.resolved()) == 1
    hub.revoked.add("s2")  # the second request to the Hub gave it
    assert storage.read("a.bin") == BLOB
    assert len(hub.resolved()) == 2
    hub.signed_for = 10.0  # less than the margin
    other = storage.at("sub")
    assert other.read("c.bin") == other.read("c.bin") == BLOB
    assert len(hub.resolved()) == 4


def test_a_signature_that_is_refused_at_once_is_an_error_without_it(hub):
    hub.signed_for = -5.0
    with pytest.raises(StorageError, match="403") as caught:
        open_storage(SONGS).read("database.bin")
    assert "Signature" not in str(caught.value)


@pytest.mark.medium
def test_a_request_that_the_hub_limits_waits_as_long_as_it_asks(hub):
    hub.limits = 1
    transfer, start = Transfer(retries=RetryPolicy(5)), time.monotonic()
    assert open_storage(SONGS, transfer).read("database.bin") == BLOB
    assert time.monotonic() - start >= 1.0
    assert transfer.requests.counts().num_retries == 1


def test_a_renamed_repository_is_followed(hub):
    storage = open_storage(f"hf://datasets/old/songs@{COMMITS[0]}")
    assert storage.read("database.bin") == BLOB


def as_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", f" {TOKEN}\n")


def as_file_beside_an_empty_variable(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_TOKEN", " \n")
    as_file(monkeypatch, tmp_path)


def as_file(monkeypatch, tmp_path):
    (tmp_path / "secret").write_text(TOKEN + "\n")
    monkeypatch.setenv("HF_TOKEN_PATH", str(tmp_path / "secret"))


def at_home(monkeypatch, tmp_path):
    (tmp_path / "home").mkdir()
    (tmp_path / "home/token").write_text(TOKEN)


@pytest.mark.parametrize("given", [as_variable, as_file, as_file_beside_an_empty_variable, at_home])
def test_the_token_goes_to_the_hub_alone(hub, given, monkeypatch, tmp_path):
    hub.is_private = True
    given(monkeypatch, tmp_path)
    storage = open_storage(f"{SONGS}/data")
    assert [storage.read(entry.path) for entry in storage.list()] == [BLOB, b'{"a": 1}', BLOB, BLOB]
    assert storage.at("sub").read_ranges("c.bin", [(0, 4)]) == [BLOB[:4]]
    assert all(one.headers["Authorization"] == f"Bearer {TOKEN}" for one in hub.asked)
    assert len(hub.sent) == 4
    assert not any("Authorization" in one.headers for one in hub.sent)
    shown = f"{storage!r}{storage.uri}{pickle.dumps(storage)}"
    assert TOKEN not in shown
    assert "Signature" not in shown


@pytest.mark.parametrize("token", [None, "hf_another"])
def test_what_the_token_may_not_read_says_what_to_do_without_the_token(hub, token, monkeypatch):
    hub.is_private = True
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(StorageError, match=r"401 Invalid username or password.*set HF_TOKEN") as caught:
        open_storage(SONGS)
    assert not isinstance(caught.value, NotFoundError)
    assert "hf_another" not in str(caught.value)


def test_a_token_with_odd_characters_is_refused_unseen(monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_a\nb")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(ConfigError, match="set it again") as caught:
        open_storage(SONGS)
    assert "hf_a" not in str(caught.value)
    assert token_for("http://127.0.0.1:8/a") is None


@pytest.mark.parametrize("name", ["hf://datasets/birds/none", f"{SONGS}@none"])
def test_a_missing_repository_or_revision_is_no_missing_file(hub, name):
    with pytest.raises(StorageError, match="check the name and the revision") as caught:
        open_storage(name)
    assert not isinstance(caught.value, NotFoundError)


@pytest.mark.parametrize("content", [b"<html>", b"{}", b"[1]", b'[{"type": "file"}]', b"[" * 100_000])
def test_an_answer_of_something_else_is_an_error_that_names_the_variable(hub, content, monkeypatch):
    storage = open_storage(f"{SONGS}@{COMMITS[0]}/data")
    monkeypatch.setattr(HubStorage, "_asked", lambda self, url: Answer(url, Message(), content))
    with pytest.raises(StorageError, match=r"hf://.*: the answer is not one of the Hub .*check HF_ENDPOINT"):
        list(storage.list())


POINTER = b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 2048\n"
ODD_ANSWERS = {  # of the other host, in place of the bytes of a file or of a part of it
    "a page": lambda reply: Reply(200, {}, b"<html>Sign in</html>"),
    "a pointer of LFS": lambda reply: Reply(200, {}, POINTER),
    "compressed": lambda reply: reply._replace(
        body=gzip.compress(reply.body), headers={**reply.headers, "Content-Encoding": "gzip"}
    ),
    "shorter": lambda reply: reply._replace(body=reply.body[:3]),
    "longer": lambda reply: reply._replace(body=reply.body + b"x"),
    "nothing": lambda reply: Reply(204),
    "several parts": lambda reply: Reply(206, {"Content-Type": "multipart/byteranges; boundary=x"}, b"--x--"),
}
READS = {
    "whole": lambda storage: storage.read("a.bin"),
    "whole, checked": lambda storage: storage.fetch("a.bin", lambda entry: None).data,
    "range": lambda storage: storage.read_ranges("a.bin", [(0, 9)])[0],
    "file": lambda storage: storage.open("a.bin").read(),
}


@pytest.mark.parametrize("read", READS.values(), ids=READS)
@pytest.mark.parametrize("odd", ODD_ANSWERS.values(), ids=ODD_ANSWERS)
def test_an_answer_with_other_bytes_is_an_error_and_read_again(hub, odd, read):
    storage = open_storage(f"{SONGS}/data", Transfer(retries=RetryPolicy(0)))
    whole = read(storage)
    hub.altered = lambda request, reply: reply if "/resolve/" in request.path else odd(reply)
    with pytest.raises(StorageError):
        read(storage)
    hub.altered = lambda request, reply: reply
    assert read(storage) == whole


@pytest.mark.parametrize("status", [404, 410])
@pytest.mark.parametrize("place", PLACES)
def test_a_listing_of_which_a_page_is_not_found_is_an_error(hub, place, status):
    storage = open_storage(f"{place}/data")
    assert len(list(storage.list())) == 4
    hub.altered = lambda request, reply: Reply(status) if "cursor" in request.path else reply
    with pytest.raises(StorageError, match=r"hf://.*/data: a page of its listing is not there"):
        list(storage.list())


def test_a_listing_without_end_is_an_error(hub):
    storage = open_storage(f"{SONGS}/data")
    again = f'<{hub.urls[0]}/api/datasets/birds/songs/tree/{COMMITS[0]}/data?cursor=2>; rel="next"'
    hub.altered = lambda request, reply: reply._replace(headers={**reply.headers, "Link": again})
    with pytest.raises(StorageError, match=r"hf://.*/data: its listing has no end"):
        list(storage.list())


def test_a_redirect_that_is_no_url_is_an_error_without_it(hub):
    hub.altered = lambda request, reply: reply._replace(headers={"Location": "http://[::1?Signature=s"})
    with pytest.raises(StorageError, match=r"hf://.*database\.bin: the Hub redirects to what is no URL") as caught:
        open_storage(f"{SONGS}@{COMMITS[0]}").read("database.bin")
    assert "Signature" not in str(caught.value)


def test_the_hub_is_not_written_to(hub):
    storage = open_storage(SONGS)
    for write in (lambda: storage.write("a", b""), lambda: storage.create("a", b""), lambda: storage.delete("a")):
        with pytest.raises(StorageError, match="read, not written to"):
            write()


def test_a_file_that_changed_meanwhile_is_not_fetched(hub):
    storage = open_storage(PLACES[3])
    tag = storage.fetch("database.bin", lambda entry: None, (0, 3)).tag
    hub.main = COMMITS[1]
    fresh = open_storage(PLACES[3])
    with pytest.raises(FileChangedError):
        fresh.fetch("database.bin", lambda entry: None, (0, 3), tag)


def test_names_are_divided_into_repository_and_path():
    assert isinstance(parsed_name(f"{SONGS}@v1.0/a@b/c")[0].uri, str)
    assert parsed_name(f"{SONGS}@v1.0/a@b/c")[1] == "a@b/c"
    assert HubStorage(parsed_name(f"{SONGS}@refs/pr/7/x")[0]).uri == f"{SONGS}@refs%2Fpr%2F7"
