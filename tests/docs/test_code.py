"""The map of the code names files that exist, and every package of the library."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/code.md").read_text()


def test_every_path_on_the_map_exists():
    folders = "assets|resources|sensors|headrace|headrace_dagster|tests|benchmarks|datasets"
    named = re.findall(rf"`((?:{folders})/[\w./]*)`", PAGE)
    assert len(named) > 40
    assert [path for path in named if not (ROOT / path).exists()] == []


def test_every_function_on_the_map_is_defined_in_its_file():
    named = re.findall(r"\| `(\w+)` \| `([\w./]+\.py)` \|", PAGE)
    assert len(named) > 10
    missing = [name for name, path in named if not re.search(rf"(def|class) {name}\b", (ROOT / path).read_text())]
    assert missing == []


def test_every_package_of_the_library_is_on_the_map():
    packages = {path.parent.name for path in (ROOT / "headrace").glob("*/__init__.py")}
    assert packages == set(re.findall(r"^\| \d \| `headrace/(\w+)` \|", PAGE, re.MULTILINE))
