"""Dagster's pages of the demo, and the report, opened by a real browser.

With HEADRACE_SCREENSHOTS=write in the environment the pictures of docs/images are written again.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from headrace_dagster.build_command.repository import REPOSITORY_ROOT
from tests.support.browser import Browser, find_browser
from tests.support.live import DagsterDev

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(find_browser() is None, reason="no Chromium: tools/install-for-tests"),
]

IMAGES = REPOSITORY_ROOT / "docs/images"
SCROLL = """text => [...document.querySelectorAll('td')].find(cell => cell.innerText.trim() === text)
  ?.scrollIntoView({block: 'center'})"""
SHOW = "[...document.querySelectorAll('button, a')].find(one => one.innerText.trim() === '[Show Markdown]').click()"
PLAYER = "document.querySelector('audio')"


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The demo, built, and a server over it."""
    folder = tmp_path_factory.mktemp("browser")
    content = yaml.safe_load((REPOSITORY_ROOT / "datasets/demo.yaml").read_text())
    content["output"] = {"uri": str(folder / "output")}
    (folder / "datasets").mkdir()
    (folder / "datasets/demo.yaml").write_text(yaml.safe_dump(content))
    server = DagsterDev(folder, folder / "datasets")
    command = [sys.executable, "build.py", "demo"]
    subprocess.run(command, cwd=REPOSITORY_ROOT, env=server.environment, check=True, capture_output=True)
    server.start()
    yield server, folder / "output"
    server.stop()


@pytest.fixture
def browser():
    browser = Browser(str(find_browser()))
    yield browser
    browser.close()


def photograph(browser: Browser, name: str, tmp_path: Path) -> None:
    writes = os.environ.get("HEADRACE_SCREENSHOTS") == "write"
    browser.photograph((IMAGES if writes else tmp_path) / f"{name}.png")


def says(*texts: str) -> str:
    return " && ".join(f"document.body.innerText.includes({text!r})" for text in texts)


@pytest.mark.parametrize(
    ("name", "path", "texts"),
    [
        ("asset-graph", "/asset-groups/demo", ["audio_shards", "loader_smoke_test", "latent_shards", "dataset_report"]),
        ("asset", "/assets/demo/sizes_index", ["sizes_index", "audio_hours"]),
        ("partitions", "/assets/demo/audio_shards?view=partitions&partition=train-0000", ["train-0000", "waveforms"]),
        ("checks", "/assets/demo/loader_smoke_test?view=checks", ["every_key_once", "resumes_exactly"]),
        (
            "codes",
            "/assets/demo/units_latent_shards?view=partitions&partition=train-0000",
            ["codes_distinct", "codes_most_frequent_share"],
        ),
        ("vectors", "/assets/demo/timbre_latent_shards?view=partitions&partition=train-0000", ["embedding_picture"]),
        ("view", "/assets/demo/clean_view", ["clipped_share < 0.001", "kept_share"]),
        ("freshness", "/assets/demo/catalog", ["Freshness", "Passing"]),
        ("automation", "/automation", ["demo_source_changes", "demo_stale_partitions", "demo_refresh"]),
    ],
)
def test_a_page_of_the_interface_shows_what_it_should(built, browser, tmp_path, name, path, texts):  # noqa: PLR0913, PLR0917 - cases
    server, _ = built
    browser.size(1400, 1200 if name == "asset-graph" else 757)  # all of the graph
    browser.open(server.url + path, says(*texts))
    browser.ask(f"({SCROLL})({texts[0]!r})")
    if name == "vectors":
        browser.ask(SHOW)
        browser.wait("document.querySelector('img[alt=\"vectors of samples\"]') !== null")
    browser.ask("new Promise(done => setTimeout(done, 2500))")  # what moves comes to rest: nothing is judged by it
    photograph(browser, name, tmp_path)
    ours = [line for line in browser.console if "favicon" not in line]
    assert ours == []


def test_numbers_are_plotted_over_time(built, browser, tmp_path):
    server, _ = built
    browser.open(server.url + "/assets/demo/sizes_index", says("Metadata", "Plots"))
    browser.ask("[...document.querySelectorAll('button')].find(one => one.innerText.trim() === 'Plots').click()")
    browser.wait("document.querySelector('canvas') !== null")
    browser.ask("document.querySelector('canvas').scrollIntoView({block: 'center'})")
    browser.ask("new Promise(done => setTimeout(done, 2500))")  # as above
    photograph(browser, "asset-plots", tmp_path)


@pytest.mark.parametrize(("name", "width", "is_dark"), [("report", 1200, False), ("report-dark", 430, True)])
def test_the_report_opens_plays_and_shows_its_pictures(built, browser, tmp_path, name, width, is_dark):  # noqa: PLR0913, PLR0917 - cases
    _, output = built
    browser.size(width, 900)
    browser.dark(is_dark)
    browser.open(f"file://{output}/report.html", says("How to load it"))
    browser.wait("[...document.images].every(image => image.complete && image.naturalWidth > 0)")
    assert browser.ask("document.images.length") >= 12
    assert browser.ask("document.documentElement.scrollWidth <= window.innerWidth") is True
    browser.ask(f"{PLAYER}.play()")
    browser.wait(f"{PLAYER}.currentTime > 0 && {PLAYER}.duration > 0 && !{PLAYER}.error")
    photograph(browser, name, tmp_path)
    if not is_dark:
        browser.ask("[...document.querySelectorAll('h2')].find(one => one.innerText === 'Listen').scrollIntoView()")
        photograph(browser, "report-sounds", tmp_path)
    assert browser.console == []
