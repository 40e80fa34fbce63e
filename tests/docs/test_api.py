"""The site of the documentation is made without a warning, with API pages and a search."""

import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.environments import make_environment

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def python(tmp_path_factory):
    """A Python interpreter with the extra `docs`: this one, or that of an environment on top of it."""
    if all(importlib.util.find_spec(name) for name in ("mkdocs", "material", "mkdocstrings_handlers")):
        return Path(sys.executable)
    extra = tomllib.loads((REPOSITORY_ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["docs"]
    constraints = ["-c", str(REPOSITORY_ROOT / "constraints.txt")]
    return make_environment(tmp_path_factory.mktemp("docs"), *constraints, *extra, beside_ours=True) / "python"


@pytest.fixture(scope="module")
def site(python, tmp_path_factory):
    folder = tmp_path_factory.mktemp("site") / "pages"
    command = [python, "tools/make_docs.py", folder]
    made = subprocess.run(command, cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stdout[-3000:] + made.stderr[-3000:]
    return folder


def test_every_page_and_every_public_name_is_in_the_site_and_in_its_search(site):
    for page in (REPOSITORY_ROOT / "docs").glob("*.md"):
        assert (site / page.stem / "index.html").exists()
    listed = json.loads((site / "search/search_index.json").read_text())["docs"]
    places = {one["location"] for one in listed}
    assert "api/#headrace.streaming.dataset.StreamingDataset" in places
    assert {"api/headrace.stores/", "api/headrace_dagster.component/", "order/", "trainers/"} <= places


def test_pages_show_their_images_and_load_nothing_from_another_host(site):
    home = (site / "index.html").read_text()
    for image in re.findall(r'<img [^>]*src="([^"]+)"', home):
        assert (site / image).exists()
    assert "images/asset-graph.png" in home
    assert not re.findall(r'<(?:script|link|img)[^>]*(?:src|href)="https?://', home)
    assert (site / "images/report.png").exists()


def test_a_link_that_leads_nowhere_is_an_error(python, tmp_path):
    code = (
        "import sys; from pathlib import Path; sys.path.insert(0, 'tools'); import make_docs\n"
        "make_docs._api_pages = lambda: iter([('api/index.md', '# API\\n\\n[lost](nowhere.md)\\n')])\n"
        f"sys.exit(make_docs.main(Path({str(tmp_path / 'pages')!r})))"
    )
    made = subprocess.run([python, "-c", code], cwd=REPOSITORY_ROOT, capture_output=True, text=True, check=False)
    assert made.returncode == 1
    assert "nowhere.md" in made.stdout + made.stderr
