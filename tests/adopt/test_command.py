"""`headrace adopt` on layouts of real projects."""

import contextlib
import hashlib
import json

import pytest
import yaml

from headrace import StreamingDataset
from headrace.adopt.command import adopt
from headrace.catalog.tables.metadata_files import in_memory
from headrace.config.dataset import load_config
from headrace.errors import ConfigError
from headrace.sources.sources import open_corpus
from headrace.testing import write_corpus
from headrace_dagster.resources.storage import StorageResource
from tests.support import forty, layouts
from tests.support.corpora import NUM_UTTERANCES, text
from tests.support.instances import memory_instance
from tests.support.projects import written_long_ago

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


def lhotse_recordings(root):
    layouts.lhotse(root)
    (root / "x_supervisions_all.jsonl.gz").unlink()


ODD = ("a,b", "x{0..1}", "y{a,b}", "z[ab]", "a b", "c#d", "e%20f", "st*r?", "q'u\"o")


@pytest.mark.medium
@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("write", [*layouts.LAYOUTS, lhotse_recordings], ids=lambda one: one.__name__)
def test_a_folder_may_have_any_name(write, odd, tmp_path, capsys):
    root = tmp_path / odd / "corpus"
    write(root)
    found = adopted(root, tmp_path, capsys)
    assert (found["faults"], len(found["samples"])) == ([], 5)
    config = load_config(tmp_path / "mine.yaml")
    storage = StorageResource(root=str(tmp_path))  # as a build opens them
    assert sum(len(chunk.path) for chunk in storage.source(config).list())
    table = storage.metadata(config)
    assert table is None or in_memory(table).height


def test_recordings_without_supervisions_are_adopted_as_samples_and_a_build_names_the_way(tmp_path, capsys):
    lhotse_recordings(tmp_path / "corpus")
    adopted(tmp_path / "corpus", tmp_path, capsys)
    source = load_config(tmp_path / "mine.yaml").source
    assert source.options == {"supervisions": "columns"}
    rows = open_corpus("lhotse", source.uri, {}).rows()
    with pytest.raises(ConfigError, match=r"without supervisions.*source\.options: {supervisions: columns}"):
        list(rows.read())


def test_no_file_is_replaced(tmp_path, capsys):
    layouts.plain(tmp_path / "corpus")
    adopted(tmp_path / "corpus", tmp_path, capsys)
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match="is not replaced"):
        adopted(tmp_path / "corpus", tmp_path, capsys)
    with pytest.raises(ConfigError, match="is not replaced"):
        adopt([str(tmp_path / "corpus"), "--yaml", str(tmp_path / "b.yaml"), "--page", str(tmp_path / "mine.yaml")])
    assert contents(tmp_path) == before


@pytest.mark.parametrize("option", ["--yaml", "--page"])
def test_nothing_is_written_below_the_corpus(option, tmp_path, monkeypatch):
    layouts.plain(tmp_path / "corpus")
    monkeypatch.chdir(tmp_path)
    before = contents(tmp_path)
    with pytest.raises(ConfigError, match="nothing is written"):
        adopt(["corpus", option, str(tmp_path / "corpus/x.yaml")])
    assert contents(tmp_path) == before


def test_the_yaml_is_named_after_the_corpus_and_the_samples_are_a_table_and_a_page(tmp_path, monkeypatch, capsys):
    layouts.sidecars(tmp_path / "my-birds")
    monkeypatch.chdir(tmp_path)
    assert adopt(["my-birds", "--page", "page.html"]) == 0
    shown = capsys.readouterr().out
    assert "recordings with sidecars" in shown
    assert "text 4" in shown
    page = (tmp_path / "page.html").read_text()
    assert page.count("<audio") == 5
    assert "text 4" in page
    yaml = (tmp_path / "my_birds.yaml").read_text()
    assert "sidecars: [json, txt]     # " in yaml
    assert load_config(tmp_path / "my_birds.yaml").source.ignore == ("LICENSE.txt",)


def test_files_that_the_yaml_does_not_use_are_counted_and_ignored(tmp_path, capsys):
    layouts.librispeech(tmp_path / "corpus")
    (tmp_path / "corpus/cover.png").write_bytes(b"")
    found = adopted(tmp_path / "corpus", tmp_path, capsys)
    assert found["unused"] == {"*.TXT": 1, "*.png": 1}
    assert load_config(tmp_path / "mine.yaml").source.ignore == ("*.TXT", "*.png")


def test_recordings_that_a_build_rejects_are_named(tmp_path, capsys):
    layouts.plain(tmp_path / "corpus")
    (tmp_path / "corpus/utt-1.wav").write_bytes(b"no sound")
    found = adopted(tmp_path / "corpus", tmp_path, capsys)
    assert [fault["path"] for fault in found["faults"]] == ["utt-1.wav"]
    assert len(found["samples"]) == 4


@pytest.mark.parametrize("content", [{}, {"a.png": b"x", "b/c.png": b"x", "README": b"x"}])
def test_what_is_not_recognised_is_an_error_that_says_what_was_found(content, tmp_path, monkeypatch):
    root = tmp_path / "corpus"
    root.mkdir()
    for name, data in content.items():
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_bytes(data)
    monkeypatch.chdir(tmp_path)
    found = "2 \\*.png, 1 README" if content else "no files"
    with pytest.raises(ConfigError, match=f"no layout is recognised. Found: {found}"):
        adopt(["corpus"])
    assert list(tmp_path.glob("*.yaml")) == []


def test_a_path_of_nothing_is_an_error(tmp_path):
    with pytest.raises(ConfigError, match="no such file or folder"):
        adopt([str(tmp_path / "gone")])


@pytest.mark.parametrize("name", ["train_manifest.json"])
def test_a_manifest_is_adopted_by_its_path(name, tmp_path, capsys):
    layouts.nemo(tmp_path / "corpus")
    found = adopted(tmp_path / "corpus" / name, tmp_path, capsys)
    assert (found["layout"], len(found["samples"])) == ("NeMo manifest", 5)


SIDECARS = {
    "read": ({"description": "a song"}, ["description", "lyrics", "number"], []),
    "a column twice": ({"number": 3}, ["number"], ["they have 'number', which the metadata table"]),
    "several kinds": ({"alignments": [["hi", [0.1, 0.2]]]}, ["number"], ["column 'alignments[][]' is text"]),
}


@pytest.mark.parametrize(("beside", "columns", "reasons"), SIDECARS.values(), ids=SIDECARS)
def test_a_table_and_sidecars_are_read_together_or_the_note_says_why_not(beside, columns, reasons, tmp_path, capsys):
    root = tmp_path / "corpus"
    rows = []
    for number in layouts.SIX.numbers:
        path = layouts.SIX.sound(root / "talk", number)
        path.with_suffix(".json").write_text(json.dumps(beside))
        path.with_suffix(".lyrics").write_text("la la")
        rows.append(json.dumps({"path": f"talk/{path.name}", "number": number}))
    (root / "data.jsonl").write_text("".join(f"{row}\n" for row in rows))
    found = adopted(root, tmp_path, capsys)
    assert found["samples"][0]["columns"] == columns
    assert found["unused"] == ({"*.json": 6, "*.lyrics": 6} if reasons else {})
    assert len(found["notes"]) == 1 + len(reasons)
    assert all(reason in found["notes"][1] for reason in reasons)


OTHERS = [write for write in layouts.LAYOUTS if write not in forty.TEXT_COLUMNS]
"""Layouts that tests/adopt/test_twelve_layouts.py does not build."""


@pytest.mark.slow
@pytest.mark.parametrize("write", OTHERS, ids=lambda write: write.__name__)
def test_what_is_adopted_is_built_and_read(write, tmp_path, monkeypatch, capsys, undrawn):
    from headrace_dagster.build_command.commands import build

    root, instance = tmp_path / "corpus", memory_instance()
    monkeypatch.setattr(
        "headrace_dagster.build_command.command.open_instance", lambda _: contextlib.nullcontext(instance)
    )
    write(root)
    written_long_ago(root)
    adopted(root, tmp_path, capsys)
    yaml = tmp_path / "mine.yaml"
    yaml.write_text(yaml.read_text() + "splits: {train: 1.0}\nloader: {num_workers: 0}\n")
    assert build([str(yaml)]) == 0
    batch = next(iter(StreamingDataset(remote=str(tmp_path / "shards/mine"), batch_size=1)))
    assert batch["audio"].shape[1] > 0
    assert len(StreamingDataset(remote=str(tmp_path / "shards/mine"), batch_size=1)) == NUM_UTTERANCES


@pytest.mark.parametrize("output", ["s3://bucket/out", "/data/out", "out"])
def test_the_output_may_be_a_bucket_or_a_folder(tmp_path, monkeypatch, capsys, output):
    write_corpus(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert adopt(["recordings", "--output", output, "--yaml", "birds.yaml"]) == 0
    found = yaml.safe_load((tmp_path / "birds.yaml").read_text())["output"]["uri"]
    assert found == (str(tmp_path / "out") if output == "out" else output)
