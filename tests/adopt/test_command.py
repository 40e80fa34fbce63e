"""`headrace adopt` on layouts of real projects."""

import hashlib
import json

import pytest

from headrace.adopt.command import adopt
from headrace.config.dataset import load_config
from headrace.errors import ConfigError
from tests.support import layouts
from tests.support.corpora import NUM_UTTERANCES, sound, text

TEXTS = {text(number) for number in range(NUM_UTTERANCES)}


def contents(folder):
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return {str(path): (path.stat().st_mtime_ns, hashlib.sha256(path.read_bytes()).hexdigest()) for path in files}


def adopted(path, folder, capsys, *options):
    assert adopt([str(path), "--yaml", str(folder / "mine.yaml"), "--json", *options]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("write", "name"), layouts.LAYOUTS.items(), ids=lambda one: getattr(one, "__name__", None))
def test_a_layout_is_recognised_and_its_first_samples_are_read(write, name, tmp_path, capsys):
    root = tmp_path / "corpus"
    write(root)
    before = contents(root)
    found = adopted(root, tmp_path, capsys)
    assert found["layout"] == name
    assert (found["faults"], len(found["samples"])) == ([], 5)
    config = load_config(tmp_path / "mine.yaml")
    assert config.output.uri == str(tmp_path / "shards/mine")
    if write not in layouts.WITHOUT_TEXT:
        texts = {one["text"].strip('"') for one in found["samples"]}
        assert len(texts) == 5
        assert texts <= TEXTS
    assert contents(root) == before
