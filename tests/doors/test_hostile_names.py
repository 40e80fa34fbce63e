"""Names and lists that lead elsewhere: redirects, escape sequences, lists of shards, aliases in YAML."""

import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from headrace import StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.config.dataset import load_config
from headrace.errors import ConfigError, HeadraceError, StorageError
from headrace.stores.own_host import stays_on_own_host
from headrace.stores.storage import Transfer, open_storage
from tests.support.commands import runner
from tests.support.drills.hostile import sound, tar
from tests.support.streaming.fault_server import fault_server

ESCAPE = "a\x1b]0;owned\x07\x9b31m\u202e.tar"


@contextmanager
def serving(answer):
    """A web server on loopback: `answer(request)` sends the response."""

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, *_):
            pass

        def do_GET(self):
            answer(self)

    for method in ("HEAD", "PUT", "DELETE", "POST"):
        setattr(Handler, f"do_{method}", Handler.do_GET)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        server.server_close()


REQUESTS = {
    "read": lambda storage: storage.read("a.txt"),
    "ranges": lambda storage: storage.read_ranges("a.txt", [(0, 1)]),
    "size": lambda storage: storage.size("a.txt"),
    "list": lambda storage: list(storage.list()),
    "write": lambda storage: storage.write("a.txt", b"x"),
    "delete": lambda storage: storage.delete("a.txt"),
}


CASES = [*((name, 307, Transfer(timeout_seconds=5)) for name in REQUESTS), ("read", 307, None)]
CASES += [(name, status, Transfer(timeout_seconds=5)) for name in ("read", "list") for status in (301, 302, 308)]


PROXIES = {
    "none": {},
    "of HTTPS alone": {"HTTPS_PROXY": "http://127.0.0.1:9"},
    "not for the store": {"HTTP_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1"},
}


@pytest.mark.parametrize("proxies", PROXIES)
@pytest.mark.parametrize(("name", "status", "transfer"), CASES)
def test_requests_with_credentials_are_not_redirected_to_another_host(monkeypatch, name, status, transfer, proxies):
    for key, value in PROXIES[proxies].items():
        monkeypatch.setenv(key, value)
    received = []
    with serving(lambda request: received.append(dict(request.headers))) as other:

        def redirect(request):
            request.send_response(status)
            request.send_header("Location", f"http://localhost:{other}/stolen")
            request.send_header("Content-Length", "0")
            request.end_headers()

        with serving(redirect) as store:
            values = {"ENDPOINT_URL": f"http://127.0.0.1:{store}", "ACCESS_KEY_ID": "k", "SECRET_ACCESS_KEY": "s"}
            for key, value in {**values, "SESSION_TOKEN": "TOKEN", "REGION": "us-east-1"}.items():
                monkeypatch.setenv(f"AWS_{key}", value)
            with pytest.raises(StorageError, match=r"(?i)redirect"):
                REQUESTS[name](open_storage("s3://bucket", transfer))
    assert received == []


def test_hosts_of_amazon_and_of_credentials_are_reached():
    excluded = stays_on_own_host(None, {"AWS_ENDPOINT_URL_STS": "https://sts.local"})["proxy_excludes"].split(",")
    assert {"amazonaws.com", "169.254.169.254", "sts.local"} <= set(excluded)


def read_stream(remote):
    return len(list(StreamingDataLoader(StreamingDataset(remote=str(remote), batch_size=1), num_threads=1)))


def read_plain(remote):
    return len(list(webdataset_loader(str(remote), batch_size=None)))


FORMS = {
    "plain": lambda name: {name: 1},
    "wids": lambda name: {"wids_version": 1, "shardlist": [{"url": name, "nsamples": 1}]},
    "wids with a base": lambda name: {"base": name.rpartition("/")[0], "shardlist": [{"url": "b.tar", "nsamples": 1}]},
}
ELSEWHERE = ["../b.tar", "../../b.tar", "/etc/b.tar", "x/../../b.tar", "http://other/b.tar", "s3://other/b.tar"]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_list_of_a_store_leads_only_below_its_folder(tmp_path, monkeypatch, form, name):
    (tmp_path / "b.tar").write_bytes(tar(sound(1)))
    (tmp_path / "set").mkdir()
    (tmp_path / "set/sizes.json").write_text(json.dumps(FORMS[form](name)))
    with fault_server(tmp_path) as server:
        for key, value in server.environment().items():
            monkeypatch.setenv(key, value)
        for read in (read_stream, read_plain):
            with pytest.raises(HeadraceError, match="not below its folder"):
                read(f"{server.uri}/set/sizes.json")
        assert not any(request.path.endswith("b.tar") for request in server.requests)


@pytest.mark.parametrize("name", ["../b.tar", "{}/b.tar", "./../b.tar"])
@pytest.mark.parametrize("form", ["plain", "wids"])
def test_a_local_list_may_lead_anywhere_and_inspect_says_where(tmp_path, capsys, monkeypatch, form, name):
    run = runner(capsys, monkeypatch)
    (tmp_path / "b.tar").write_bytes(tar(sound(1)))
    (tmp_path / "set").mkdir()
    path = tmp_path / "set/sizes.json"
    path.write_text(json.dumps(FORMS[form](name.format(tmp_path))))
    assert read_stream(path) == read_plain(path) == 1
    code, out, _ = run("inspect", path)
    assert (code, f"{tmp_path}/b.tar" in out) == (0, True)


@pytest.mark.medium
def test_no_command_prints_escape_sequences_of_names(tmp_path, capsys, monkeypatch):
    run = runner(capsys, monkeypatch)
    (tmp_path / ESCAPE).write_bytes(tar(sound(1)))
    (tmp_path / f"b{ESCAPE}").write_bytes(b"no tar" * 1000)
    (tmp_path / "c.tar").write_bytes(tar(sound(2)) + b"x")
    for arguments in (
        ["inspect", tmp_path],
        ["verify", tmp_path],
        ["index", tmp_path],
        ["verify", tmp_path / ESCAPE],
        ["inspect", f"{tmp_path}/gone{ESCAPE}"],
        ["simulate", tmp_path, "--world-size", 1, "--batch-size", 1],
        ["export", tmp_path / ESCAPE, tmp_path / "x"],
        ["gc", tmp_path / ESCAPE],
    ):
        _, out, err = run(*arguments)
        printed = out + err
        assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(printed), arguments
        assert ("\\x1b]0;owned" in printed) == (arguments != ["verify", tmp_path / ESCAPE]), arguments


def bomb(depth):
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, depth)]
    return "\n".join([*lines, "source: {uri: a}", "output: {uri: b}", ""])


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [bomb(9), bomb(40), "source: &a [*a]\n", "source: &a {uri: *a}\n", "source: {uri: a}\nexclude: &b [*b, *b]\n"],
)
def test_aliases_that_stand_for_too_much_are_an_error(tmp_path, text):
    path = tmp_path / "bomb.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"bomb\.yaml: not valid YAML: .*the aliases of the file stand for more than"):
        load_config(path)


def test_few_aliases_are_read(tmp_path):
    path = tmp_path / "good.yaml"
    path.write_text("source: {uri: &place there}\noutput: {uri: *place}\n")
    assert load_config(path).output.uri == "there"


def test_an_error_of_a_command_is_printable(tmp_path, capsys):
    assert main(["inspect", str(tmp_path / ESCAPE.replace("/", ""))]) == 1
    assert "\x1b" not in capsys.readouterr().err
