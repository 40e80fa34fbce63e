"""Each page of docs/sources/ begins with its owner's layout and ends with a batch; all that it shows is real."""

import json
import re
from pathlib import Path

import pytest
import yaml

from headrace.adopt.command import adopt
from headrace.source_kinds import FILES, kind_names
from tests.support import layouts
from tests.support.corpora import build

OVERVIEW = Path("docs/sources.md").read_text()
WRITERS = {
    "kaldi.md": layouts.kaldi,
    "nemo.md": layouts.nemo,
    "lhotse.md": layouts.lhotse,
    "webdataset.md": layouts.webdataset,
    "parquet.md": layouts.parquet,
    "tfrecord.md": layouts.tfrecord,
    "headrace.md": layouts.headrace,
}
UNSHOWN = ("own_id", "provenance")  # of kind headrace
PAGES = {name: Path("docs/sources", name).read_text() for name in WRITERS}
LAYOUT = re.compile(r"^    /data/(\w+)/$", re.MULTILINE)


def block(page, language):
    """The only block of a language."""
    (found,) = re.findall(rf"^```{language}\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    return found


@pytest.fixture
def corpus(request, tmp_path, monkeypatch):
    """The corpus that the page of the parameter shows, in a folder of the same name."""
    name = request.param
    root = tmp_path / LAYOUT.search(PAGES[name])[1]
    WRITERS[name](root)
    monkeypatch.chdir(tmp_path)
    return name, root


def test_each_kind_has_a_page_that_the_overview_names():
    kinds = set(kind_names()) - {FILES}
    assert {f"{kind}.md" for kind in kinds} == WRITERS.keys() == {path.name for path in Path("docs/sources").iterdir()}
    assert set(re.findall(r"^\| \[`\w+`\]\(sources/(.*)\)", OVERVIEW, re.MULTILINE)) == WRITERS.keys()


@pytest.mark.parametrize("name", WRITERS)
def test_a_page_begins_with_a_layout_and_ends_with_a_batch(name):
    page = PAGES[name]
    titles = re.findall(r"^## (.*)", page, re.MULTILINE)
    assert titles[0] == "Adopt it"
    assert titles[-2:] == ["Changes and rejects", "A batch"]
    assert LAYOUT.search(page).start() < page.index("## Adopt it") < page.index("```yaml")
    assert page.endswith(f"```json\n{block(page, 'json')}```\n")
    assert 60 <= page.count("\n") <= 100


@pytest.mark.parametrize("corpus", WRITERS, indirect=True)
def test_adopt_answers_what_the_page_says(corpus, capsys):
    name, root = corpus
    command, *answer, last = block(PAGES[name], "console").splitlines()
    assert command.split() == ["$", "headrace", "adopt", f"/data/{root.name}"]
    assert last == "…"
    assert adopt([str(root)]) == 0
    assert capsys.readouterr().out.splitlines()[: len(answer)] == answer


@pytest.mark.medium
@pytest.mark.parametrize("corpus", WRITERS, indirect=True)
def test_the_yaml_and_the_code_of_a_page_give_its_batch(corpus, tmp_path):
    name, _ = corpus
    page = PAGES[name]
    content = yaml.safe_load(block(page, "yaml"))
    source = content.pop("source")
    assert source["kind"] == name.removesuffix(".md")
    assert content.pop("output")["uri"] in page.partition("```python")[2]
    build(tmp_path, source | {"uri": f"{tmp_path}{source['uri'].removeprefix('/data')}"}, **content)
    names = {}
    exec(re.sub(r"shards/\w+", str(tmp_path / "output"), block(page, "python")), names)
    assert names["batch"]["audio"].shape[0] == 4
    rows = [row for batch in names["StreamingDataLoader"](names["dataset"]) for row in batch["metadata"]]
    shown = json.loads(block(page, "json"))
    assert shown in [{key: value for key, value in row.items() if key in shown} for row in rows]
    assert all(row.keys() <= shown.keys() | {"headrace", *UNSHOWN} for row in rows)
