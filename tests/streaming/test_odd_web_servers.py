"""Web servers and proxies that answer oddly: what they hold is read, or an error names the way out."""

import contextlib
import json
import os
import pickle
import re
import shutil
import tempfile
import threading
import traceback
import warnings
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import ConfigError, HeadraceError, StorageError
from headrace.stores.retry_policy import RetryPolicy
from headrace.stores.storage import ObjectStorage, Transfer, open_storage
from headrace.verification.shard_check import Depth
from headrace.verification.verify import find_target, verify
from tests.streaming.shards.test_foreign import keys, write_tar
from tests.support.streaming.corpus import clips
from tests.support.streaming.fault_server import fault_server

TRAIN = sorted(clip.key for clip in clips(8))
pytestmark = pytest.mark.usefixtures("short_pauses")


class Odd(BaseHTTPRequestHandler):
    """Serves a folder; `odd` says how it differs from other servers."""

    protocol_version = "HTTP/1.1"
    folder: Path
    odd = frozenset()
    num_odd = 10**9  # answers that are still odd
    requests = ()  # of one server

    def log_message(self, *_):
        """Be quiet."""

    def do_HEAD(self):
        if "no HEAD" in self.odd:
            self.send_error(405)
        else:
            self._answer(with_body=False)

    def do_GET(self):
        self._answer(with_body=True)

    def _is_signed(self, query):
        return "signed" not in self.odd or query == SIGNATURES[0]

    def _answer(self, *, with_body):
        path, _, query = self.path.partition("?")
        type(self).requests.append((query, self.headers.get("Range")))
        file = self.folder / path.lstrip("/")
        if not file.is_file() or not self._is_signed(query):
            self.send_error(404 if not file.is_file() else 403)
            return
        blob, headers, status = file.read_bytes(), {"Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT"}, 200
        span = re.fullmatch(r"bytes=(\d+)-(\d+)?", self.headers.get("Range", ""))
        if span and "no ranges" not in self.odd:
            start, stop = int(span[1]), min(int(span[2] or len(blob)) + 1, len(blob))
            status, headers["Content-Range"] = 206, self._content_range(start, stop, len(blob))
            blob = blob[start:stop]
        self.send_response(status)
        is_chunked = "chunked" in self.odd and with_body
        headers["Transfer-Encoding" if is_chunked else "Content-Length"] = "chunked" if is_chunked else str(len(blob))
        for name, value in headers.items():
            if value:
                self.send_header(name, value)
        self.end_headers()
        if with_body:
            with contextlib.suppress(ConnectionError):
                self.wfile.write(b"%x\r\n%s\r\n0\r\n\r\n" % (len(blob), blob) if is_chunked else blob)

    def _content_range(self, start, stop, size):
        kinds = {"another range": (1, 1), "a shorter range": (0, -1)}
        kind = next((name for name in (*kinds, "no sizes", "nonsense", "no Content-Range") if name in self.odd), "")
        if kind and kind != "no sizes":
            type(self).num_odd -= 1
            kind = kind if self.num_odd >= 0 else ""
        first, last = kinds.get(kind, (0, 0))
        sound = f"bytes {start + first}-{stop - 1 + last}/{'*' if kind == 'no sizes' else size}"
        return {"nonsense": "bytes nonsense", "no Content-Range": ""}.get(kind, sound)


@pytest.fixture
def web(tmp_path):
    """A function that starts such a server, and gives its URL."""
    (tmp_path / "web").mkdir()
    for number in range(2):
        write_tar(tmp_path / f"web/train-{number}.tar", clips(4, first=4 * number))
    with contextlib.ExitStack() as stack:

        def start(*odd, num_odd=10**9):
            made = {"folder": tmp_path / "web", "odd": frozenset(odd), "num_odd": num_odd, "requests": []}
            server = ThreadingHTTPServer(("127.0.0.1", 0), type("Handler", (Odd,), made))
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
            stack.callback(server.server_close)
            stack.callback(server.shutdown)
            return server.RequestHandlerClass, f"http://127.0.0.1:{server.server_port}"

        yield start


def streamed(url, tmp_path):
    return keys(f"{url}/train-{{0..1}}.tar", local=str(tmp_path / "cache"), download_retry=3)


def plain(url, _):
    return sorted(sample["__key__"] for sample in webdataset_loader(f"{url}/train-{{0..1}}.tar", batch_size=None))


READERS = {"StreamingDataset": streamed, "webdataset_loader": plain}
READ = [(), ("no HEAD",), ("chunked",), ("no sizes",), ("no HEAD", "chunked"), ("no HEAD", "no sizes", "chunked")]


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("odd", READ, ids=" and ".join)
def test_a_server_that_is_odd_but_correct_is_read(web, tmp_path, odd, read):
    assert read(web(*odd)[1], tmp_path) == TRAIN


@pytest.mark.parametrize("odd", [(), ("no HEAD",), ("chunked",), ("no HEAD", "chunked")], ids=" and ".join)
def test_a_server_without_ranges_is_read_from_front_to_end(web, tmp_path, odd):
    handler, url = web("no ranges", *odd)
    assert plain(url, tmp_path) == TRAIN
    assert len(handler.requests) < 30  # not one for each piece


@pytest.mark.parametrize("odd", [(), ("no HEAD",), ("chunked",)], ids=" and ".join)
def test_streaming_from_a_server_without_ranges_names_the_ways_out(web, tmp_path, odd):
    with pytest.raises(StorageError, match=r"does not answer requests for byte ranges.*nginx.*webdataset_loader"):
        streamed(web("no ranges", *odd)[1], tmp_path)


WRONG = ["another range", "a shorter range", "nonsense", "no Content-Range"]


@pytest.mark.parametrize("read", READERS.values(), ids=READERS)
@pytest.mark.parametrize("odd", WRONG)
def test_a_wrong_range_does_not_end_a_run(web, tmp_path, odd, read):
    assert read(web(odd, num_odd=3)[1], tmp_path) == TRAIN


@pytest.mark.parametrize("odd", WRONG)
def test_a_range_that_is_always_wrong_is_an_error_that_names_proxies(web, odd):
    storage = open_storage(web(odd)[1], Transfer(5.0, RetryPolicy(2)))
    with pytest.raises(StorageError, match=r"train-0\.tar: failed 3 times.*a proxy or cache on the way.*NO_PROXY"):
        storage.read_ranges("train-0.tar", [(10, 20)])


def test_a_store_of_a_build_asks_again_after_a_wrong_range(web):
    storage = open_storage(web("another range", num_odd=2)[1])
    assert len(storage.read_ranges("train-0.tar", [(10, 20)])[0]) == 10


def test_a_signed_url_is_read_by_the_plain_loader_and_its_signature_is_in_no_message(web):
    signed = f"{web('signed')[1]}/train-0.tar?signature=a%2Bb&x=1"
    loader = webdataset_loader(signed, batch_size=None)
    assert sorted(sample["__key__"] for sample in loader) == TRAIN[:4]


SIGNATURES = ("signature=a%2Bb&x=1", "signature=new&x=2")


@pytest.mark.medium
@pytest.mark.parametrize("odd", READ, ids=" and ".join)
def test_signed_urls_are_streamed_whatever_the_server_answers(web, tmp_path, odd):
    _, url = web("signed", *odd)
    remotes = [Stream(remote=f"{url}/train-{number}.tar?{SIGNATURES[0]}") for number in range(2)]
    dataset = StreamingDataset(streams=remotes, batch_size=1, local=str(tmp_path / "cache"))
    assert sorted(sample["__key__"] for sample in dataset) == TRAIN


def test_a_new_signature_finds_the_cached_shard_and_the_saved_state(web, tmp_path):
    handler, url = web("signed")
    signed = [f"{url}/train-0.tar?{query}" for query in SIGNATURES]
    first = StreamingDataset(remote=signed[0], batch_size=1, local=str(tmp_path / "cache"), shuffle=True)
    loader = iter(StreamingDataLoader(first, num_threads=1))
    delivered = [next(loader)["keys"][0]]
    state = first.state_dict()
    first.prepare_shard(0)
    handler.odd = frozenset()  # the first may still read ahead
    second = StreamingDataset(remote=signed[1], batch_size=1, local=str(tmp_path / "cache"), shuffle=True)
    second.load_state_dict(state)
    delivered += [batch["keys"][0] for batch in StreamingDataLoader(second, num_threads=1)]
    assert sorted(delivered) == TRAIN[:4]
    spans = {span for query, span in handler.requests if query == SIGNATURES[1]}
    assert spans == {"bytes=0-0"}  # the version, and no content
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    said = [json.dumps(state), *map(str, files), *(path.read_bytes().decode("latin-1") for path in files)]
    assert not any(secret in text for text in said for secret in ("a%2Bb", "signature=", "x=1"))


def failing(act):
    """Text that somebody reads when something fails: the error with its causes, and warnings."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises((HeadraceError, OSError)) as error:
            act()
    return "".join(traceback.format_exception(error.value)) + "".join(str(one.message) for one in caught)


def streaming(url):
    return lambda: [*StreamingDataset(remote=url, batch_size=1, download_retry=1)]


REFUSED = {
    "expired": (("signed",), "/train-0.tar?signature=0ld1", r"the server answers 403 .*pass a new URL"),
    "no such tar": ((), "/none.tar?signature=0ld1", r"none\.tar: not found"),
    "no ranges": (("no ranges",), "/train-0.tar?signature=0ld1", "does not answer requests for byte ranges"),
    "another range": (("another range",), "/train-0.tar?signature=0ld1", "failed 2 times"),
    "a folder": ((), "/web?signature=0ld1", r"web\?….*names one file.*streams=.*s3://.*webdataset_loader"),
    "a list": ((), "/sizes.json?signature=0ld1", "names one file"),
    "a space": ((), "/train-0.tar?signature=0ld1 and more", "percent-encode"),
    "another split": ((), "/train-0.tar?signature=0ld1", "test"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_no_message_about_a_signed_url_has_its_signature(web, case, caplog):
    odd, name, words = REFUSED[case]
    url = web(*odd)[1] + name
    read = streaming(url)
    if case == "another split":
        read = lambda: StreamingDataset(remote=url, split="test", batch_size=1)  # noqa: E731
    said = failing(read) + caplog.text
    assert re.search(words, said, re.DOTALL)
    assert "0ld1" not in said


def test_a_signed_url_is_read_by_commands_and_written_by_none(web, capsys):
    signed = f"{web('signed')[1]}/train-0.tar?{SIGNATURES[0]}"
    assert verify(find_target(signed), Depth(1, 0)).num_samples == 4
    assert main(["inspect", signed]) == 0
    assert main(["index", signed]) == 1
    said = "".join(capsys.readouterr())
    assert "a signed URL is read alone: for more, name the bucket" in said
    assert "signature" not in said


def test_a_signed_store_holds_its_object_alone(web):
    url = web("signed")[1]
    storage = ObjectStorage.of_signed(f"{url}/train-0.tar?{SIGNATURES[0]}", Transfer(5.0, RetryPolicy(1)))
    size = storage.size("train-0.tar")
    assert len(storage.read("train-0.tar")) == size
    assert len(pickle.loads(pickle.dumps(storage)).read_ranges("train-0.tar", [(0, 512)])[0]) == 512
    assert not storage.exists("train-1.tar")
    assert SIGNATURES[0] not in repr(storage)
    for refused in (lambda: list(storage.list()), lambda: storage.write("a", b""), lambda: storage.delete("a")):
        with pytest.raises(ConfigError, match="name the bucket"):
            refused()


NAMES = ["a%20b", "a#b", "a?b", "a*b", "a[1]", "a{x}", "a{0..1}", "%", "a b+c&d=e;f", "é"]


@pytest.mark.parametrize("name", NAMES)
def test_keys_of_a_bucket_are_taken_as_they_are_spelled(tmp_path, monkeypatch, name):
    for folder in (name, "other"):
        (tmp_path / "data" / folder).mkdir(parents=True)
        write_tar(tmp_path / "data" / folder / f"{name}.tar", clips(4))
        write_tar(tmp_path / "data" / folder / "ab.tar", clips(4, first=4))
    with fault_server(tmp_path / "data") as server:
        for variable, value in server.environment().items():
            monkeypatch.setenv(variable, value)
        for read in (keys, lambda uri: sorted(s["__key__"] for s in webdataset_loader(uri, batch_size=None))):
            assert read(f"s3://bucket/{name}") == TRAIN  # a folder
            assert read(f"s3://bucket/other/{name}.tar") == TRAIN[:4]
        storage = open_storage(f"s3://bucket/{name}")
        assert {entry.path for entry in storage.list()} == {f"{name}.tar", "ab.tar"}
        assert storage.at("below").uri == f"s3://bucket/{name}/below"
        assert verify(find_target(f"s3://bucket/{name}"), Depth(1, 0)).num_samples == 8


@pytest.fixture
def second_user():
    """A folder that everybody may enter, and a block in which this process is another user."""
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    folder = Path(tempfile.mkdtemp(dir="/var/tmp"))  # the temporary folder of tests is closed to other users
    folder.chmod(0o777)

    @contextlib.contextmanager
    def another_user():
        os.seteuid(65534)
        try:
            yield
        finally:
            os.seteuid(0)

    yield folder, another_user
    shutil.rmtree(folder)


@pytest.mark.parametrize(("of_folder", "of_files"), [(0o700, 0o600), (0o755, 0o644), (0o777, 0o600), (0o755, 0o600)])
def test_a_cache_of_another_user_is_a_warning_and_the_store_is_read(monkeypatch, second_user, of_folder, of_files):
    folder, another_user = second_user
    (folder / "data").mkdir(mode=0o755)
    write_tar(folder / "data/a.tar", clips(4))
    cache = folder / "cache"
    with fault_server(folder / "data") as server:
        for variable, value in server.environment().items():
            monkeypatch.setenv(variable, value)
        first = StreamingDataset(remote=server.uri, local=str(cache), batch_size=1, download_retry=0)
        first.prepare_shard(0)
        for path in (cache, *cache.rglob("*")):
            path.chmod(of_folder if path.is_dir() else of_files)
        with another_user(), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            second = StreamingDataset(remote=server.uri, local=str(cache), batch_size=1, download_retry=0)
            with contextlib.suppress(OSError):
                second.prepare_shard(0)
            found = sorted(sample["__key__"] for sample in second)
        assert found == TRAIN[:4]
        shared = of_folder == 0o755 and of_files == 0o644  # readable: it serves the second user, too
        assert shared or any("choose another local=" in str(warning.message) for warning in caught)
