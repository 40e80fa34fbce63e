"""No message of any door repeats the password or the signature of a URL."""

import contextlib
import io
import re

import pytest
import yaml

from headrace import StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.config.dataset import load_config
from headrace.errors import ConfigError, HeadraceError
from headrace.signed_urls import check_no_password
from headrace.stores.storage import open_storage
from tests.support.streaming.fault_server import Fault, fault_server

MARK = "h4nter2"
PASSWORDS = {
    "folder": f"https://user:{MARK}@127.0.0.1:9/a",
    "tar": f"HTTPS://user:{MARK}@127.0.0.1:9/a/0.tar",
    "token": f"http://{MARK}@127.0.0.1:9/a/0.tar",
    "pattern": f"https://user:{MARK}@127.0.0.1:9/a/{{0..3}}.tar",
    "bucket": f"s3://user:{MARK}@bucket/a",
    "hub": f"hf://user:{MARK}@datasets/a/b",
    "signed": f"https://user:{MARK}@127.0.0.1:9/a/0.tar?X-Sig=1",
    "odd": f"https://user:{MARK}@x@127.0.0.1:9/a",
}


def command(*words):
    def run(url):
        shown = io.StringIO()
        with contextlib.redirect_stdout(shown), contextlib.redirect_stderr(shown):
            code = main([*words, url])
        assert code
        return shown.getvalue()

    return run


def raised(door):
    def run(url):
        with pytest.raises(HeadraceError) as caught:
            door(url)
        return str(caught.value)

    return run


def read(remote):
    StreamingDataset(remote=remote, batch_size=1, download_retry=0, download_timeout=1)


DOORS = {
    "dataset": raised(read),
    "list": raised(lambda url: read([url])),
    "webdataset": raised(lambda url: list(webdataset_loader(url, batch_size=1, num_workers=0))),
    "webdataset, list": raised(lambda url: list(webdataset_loader([url], batch_size=1, num_workers=0))),
    "inspect": command("inspect"),
    "verify": command("verify"),
    "index": command("index"),
    "index into": command("index", "--into", "memory://x"),
    "find": command("find", "key"),
    "view": command("view", "--name", "v", "--where", "a > 1"),
}


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("form", PASSWORDS)
def test_a_password_is_refused_and_not_repeated(form, door):
    said = DOORS[door](PASSWORDS[form])
    assert MARK not in said
    assert "names and passwords in URLs are not sent" in " ".join(said.split())


@pytest.mark.parametrize("form", sorted(PASSWORDS.keys() - {"signed"}))
def test_a_store_is_not_opened_with_a_password(form):
    with pytest.raises(ConfigError, match="names and passwords in URLs are not sent") as caught:
        open_storage(PASSWORDS[form])
    assert MARK not in str(caught.value)


@pytest.mark.parametrize("door", DOORS)
def test_no_message_repeats_a_signature(door, tmp_path):
    with fault_server(tmp_path) as server:
        server.fault = lambda _: Fault.ERROR_403
        said = DOORS[door](f"http://127.0.0.1:{server.port}/bucket/0.tar?X-Sig={MARK}")
    assert MARK not in said


@pytest.mark.parametrize(
    "words",
    [
        ["adopt", "{}"],
        ["adopt", ".", "--output", "{}"],
        ["adopt", ".", "--page={}"],
        ["build", "{}"],
        ["columns", ".", "--parquet", "{}"],
        ["export", ".", "{}"],
        ["verify", ".", "--encode-again", "1", "--config", "{}"],
    ],
    ids=" ".join,
)
def test_no_command_takes_a_password_in_any_argument(words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main([word.format(PASSWORDS["folder"]) for word in words])
    said = capsys.readouterr()
    assert "names and passwords in URLs are not sent" in said.err
    assert MARK not in said.out + said.err
    assert not list(tmp_path.iterdir())


URL = PASSWORDS["folder"]
SECTIONS = {
    "source.uri": {"source": {"uri": URL}},
    "source.metadata": {"source": {"uri": "x", "metadata": URL}},
    "source.metadata[1]": {"source": {"uri": "x", "metadata": ["a.csv", URL]}},
    "output.uri": {"output": {"uri": URL}},
    "output.takes_over": {"output": {"uri": "out", "takes_over": URL}},
    "exclude": {"exclude": URL},
    "columns[0].table": {"columns": [{"name": "c", "table": URL}]},
    "columns[0].table.uri": {"columns": [{"name": "c", "table": {"uri": URL}, "optional": True}]},
    "latents[0].encoder.weights": {"latents": [{"name": "l", "encoder": {"kind": "crepe", "weights": URL}}]},
    "latents[0].encoder.file": {"latents": [{"name": "l", "encoder": {"kind": "onnx", "file": URL}}]},
    "latents[0].encoder.centroids": {"latents": [{"name": "l", "encoder": {"kind": "kmeans", "centroids": URL}}]},
}


@pytest.mark.parametrize("where", SECTIONS)
def test_a_yaml_file_has_no_password(where, tmp_path):
    path = tmp_path / "birds.yaml"
    path.write_text(yaml.safe_dump({"source": {"uri": "x"}, "output": {"uri": "out"}, **SECTIONS[where]}))
    with pytest.raises(ConfigError, match=re.escape(where) + ".*names and passwords in URLs are not sent") as caught:
        load_config(path)
    assert MARK not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["/data/a@b", "a@b/c", "s3://bucket/a@b", "hf://datasets/a/b@main/c", "https://host/@x"]
)
def test_an_at_sign_elsewhere_is_a_part_of_the_name(name):
    check_no_password(name)
