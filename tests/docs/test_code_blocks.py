"""Every code block of the README and the pages in docs runs in a test, or says why not.

A block that is not run has a comment before it: `<!-- not run: the reason -->`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from headrace.config.dataset import parse_config
from headrace.features.levels import LevelsFeature
from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.stems import songs, write_stems
from tests.support.view_fixtures import write_view

PAGES = [
    "README.md",
    "CONTRIBUTING.md",
    *sorted(map(str, [*Path("docs").glob("*.md"), *Path("docs/sources").glob("*.md")])),
]
KINDS = [page for page in PAGES if page.startswith("docs/sources/")]

ELSEWHERE = {
    ("docs/config.md", "yaml"): "tests/docs/test_config.py",
    ("docs/corpora.md", "yaml"): "tests/docs/test_corpora.py",
    ("docs/dagster.md", "python"): "tests/headrace_dagster/test_foreign_project.py",
    ("docs/dagster.md", "sh"): "tests/headrace_dagster/test_foreign_project.py",
    ("docs/dagster.md", "yaml"): "tests/headrace_dagster/test_foreign_project.py",
    ("docs/format.md", "python"): "tests/docs/test_format.py",
    ("docs/latents.md", "yaml"): "tests/encoders/test_docs.py",
    ("docs/migrating.md", "python"): "tests/streaming/test_migrating_docs.py",
    ("docs/migrating.md", "yaml"): "tests/streaming/test_migrating_docs.py",
    **{
        (page, language): "tests/docs/test_sources.py"
        for page in KINDS
        for language in ("console", "yaml", "python", "json")
    },
    ("docs/scaling.md", "python"): "tests/streaming/simulated/test_simulation.py",
}
"""Pages and languages whose blocks run in a test of their own."""

RUN_HERE = {"python", "yaml"}


@dataclass(frozen=True, slots=True)
class Block:
    """A code block of a page."""

    page: str
    line: int
    language: str
    code: str
    reason: str | None

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def blocks():
    """All blocks with a language; those without are drawings and listings."""
    fence = re.compile(r"^(?:<!-- not run: (.+) -->\n\n?)?^ *```(\w+)\n(.*?)^ *```$", re.MULTILINE | re.DOTALL)
    for page in PAGES:
        text = Path(page).read_text()
        for found in fence.finditer(text):
            line = text[: found.start(2)].count("\n") + 1
            yield Block(page, line, found[2], found[3], found[1])


BLOCKS = list(blocks())
HERE = [b for b in BLOCKS if b.language in RUN_HERE and (b.page, b.language) not in ELSEWHERE and not b.reason]


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """An output with the columns of the demo's, and those of the other pages."""
    folder = tmp_path_factory.mktemp("demo")
    write_dataset(folder, {"train": clips(40), "test": clips(7, first=200)}, latents=True)
    write_columns(folder, "levels", {name: ("float", lambda key: float(len(key))) for name in LevelsFeature.columns})
    write_columns(folder, "captions", {"caption": ("string", lambda key: f"This is {key}.")})
    write_columns(folder, "scores", {"snr": ("float", lambda key: 20.0), "clap": ("float", lambda key: 0.5)})
    write_view(folder, "balanced", lambda key: 2)
    return folder


@pytest.fixture(scope="module")
def stems(tmp_path_factory):
    folder = tmp_path_factory.mktemp("stems")
    write_stems(folder, songs(9))
    return folder


def test_blocks_are_found():
    assert {block.page for block in BLOCKS} >= {"README.md", "docs/batches.md", "docs/order.md", "docs/dagster.md"}
    assert sum(Path(page).read_text().count("```") for page in PAGES) > 2 * len(BLOCKS) > 80


@pytest.mark.parametrize("block", BLOCKS, ids=str)
def test_a_block_runs_in_a_test_or_says_why_not(block):
    if block.reason or block in HERE:
        return
    test = ELSEWHERE.get((block.page, block.language))
    assert test is not None, f"{block}: nothing runs it; write <!-- not run: REASON --> before it, or run it"
    assert Path(block.page).name in Path(test).read_text()


@pytest.mark.parametrize("block", [one for one in HERE if one.language == "python"], ids=str)
def test_a_python_block_runs_as_it_stands(block, demo, stems, tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    (tmp_path / "data/demo").symlink_to(demo)
    monkeypatch.chdir(tmp_path)
    code = block.code.replace("/data/shards/stems", str(stems)).replace("s3://shards/music", str(demo))
    code = re.sub(r"/data/shards/\w+", str(demo), code)
    exec(compile(code, str(block), "exec"), {"__name__": "docs"})


@pytest.mark.parametrize("block", [one for one in HERE if one.language == "yaml"], ids=str)
def test_a_yaml_block_is_a_valid_data_set_or_a_part_of_one(block):
    content = {"output": {"uri": "/data/shards"}} | yaml.safe_load(block.code)
    content["source"] = {"uri": "/data/recordings"} | content.get("source", {})
    parse_config(content, "example", REPOSITORY_ROOT / "example.yaml")
