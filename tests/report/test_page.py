"""The report page is one file, describes the dataset, and its cost does not grow with the dataset."""

import re
from collections import Counter
from html import unescape
from html.parser import HTMLParser

import numpy as np
import polars as pl
import pytest
import soundfile

from headrace.format.indexes.index_files import read_index
from headrace.format.snapshots.snapshots import NumberedSnapshot, Snapshot, SplitTotals, read_snapshot
from headrace.report.catalog_figures import CatalogFigures
from headrace.report.contents import GalleryClip, ReportContents, ReportInputs, collect_contents
from headrace.report.page import Report, render_report
from headrace_dagster.resources.storage import StorageResource
from tests.support.damage import flip_audio
from tests.support.projects import Graph, Project
from tests.support.undrawn import nothing_drawn

pytestmark = pytest.mark.medium

RATE_HZ = 8000


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("report"))
    project.write_tones(8)
    rows = [f"tone{i:03d}.wav,{'low' if i < 4 else 'high'},note {i}" for i in range(8)]
    (project.folder / "metadata.csv").write_text("path,category,title\n" + "\n".join(rows) + "\n")
    source = {"uri": str(project.recordings), "metadata": str(project.folder / "metadata.csv"), "settle_seconds": 0}
    project.write_yaml(source=source, latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}])
    graph = Graph(project)
    with nothing_drawn():  # for Dagster's pages
        graph.build()
        for partition in graph.partitions:
            assert graph.run(graph.keys.latent_shards("mel"), partition).success
        assert graph.run(graph.keys.latents_index("mel")).success
    assert graph.run(graph.keys.dataset_report).success
    return graph


@pytest.fixture(scope="module")
def page(graph):
    return (graph.project.output / "report.html").read_text()


class Tags(HTMLParser):
    """Collects all elements with their attributes. Void and SVG elements need no end tag."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag, attributes):
        self.found.append((tag, dict(attributes)))


def elements(page: str, tag: str) -> list[dict[str, str | None]]:
    tags = Tags()
    tags.feed(page)
    return [attributes for name, attributes in tags.found if name == tag]


def test_nothing_is_loaded_from_outside(page):
    assert elements(page, "script") == []
    addresses = [
        a.get("src") or a.get("href") for tag in ("img", "audio", "link", "iframe") for a in elements(page, tag)
    ]
    assert addresses
    assert all(address.startswith("data:") for address in addresses)
    assert "@import" not in page
    assert not re.search(r"url\((?!#)", page)


def test_the_page_has_players_images_latents_and_charts(page):
    assert len(elements(page, "audio")) == 6
    labels = [image["alt"] for image in elements(page, "img")]
    assert labels.count("spectrogram") == labels.count("latents") == 6
    charts = [svg["aria-label"] for svg in elements(page, "svg")]
    assert charts.count("waveform") == 6
    assert {"hours per category and split", "histogram: seconds", "histogram: dB RMS", "hours over snapshots"} <= set(
        charts
    )


def test_hours_are_grouped_by_the_category_column(page):
    assert "Hours by category and split" in page
    assert ">low<" in page


def test_the_example_code_reads_the_dataset(page, graph):
    code = re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1]
    assert f"{graph.project.output}/audio" in code
    assert f"{graph.project.output}/latents/mel" in code


def loading_code(page: str) -> str:
    return unescape(re.search(r"<pre>(.*?)</pre>", page, re.DOTALL)[1])


@pytest.mark.parametrize(
    ("counts", "line"),
    [
        ({"test": 1, "train": 8, "validation": 1}, "split='train'"),
        ({"train": 0, "fold 'a'": 3, "fold b": 2}, "split=\"fold 'a'\""),
        ({"train": 0}, None),
    ],
)
def test_the_example_code_names_a_split_with_samples(counts, line):
    splits = {name: SplitTotals(1, count, 1, 1.0) for name, count in counts.items()}
    snapshot = NumberedSnapshot(1, Snapshot("", {}, splits, (), 1, ""))
    code = loading_code(render_report(Report("x", {"audio": snapshot}, [])).decode())
    assert (f"    {line},\n" in code) if line else ("split" not in code)
    compile(code, "report", "exec")


@pytest.mark.parametrize("num_channels", [None, 1])
def test_the_example_code_works_with_mixed_channel_counts(num_channels, tmp_path, undrawn):
    project = Project(tmp_path)
    for i in range(6):
        project.write_tone(f"tone{i}", hz=300 + i, channels=1 + i % 2)
    project.write_yaml(splits={"held": 1.0}, shards={"samples_per_shard": 3}, audio={"num_channels": num_channels})
    graph = Graph(project)
    graph.build()
    assert graph.run(graph.keys.dataset_report).success
    code = loading_code((project.output / "report.html").read_text())
    assert ("batch_size=1," in code) == (num_channels is None)
    seen = {"keys": []}
    exec(code.replace("num_workers=2", "num_workers=0") + "    keys += batch['keys']\n", seen)
    assert len([key for key in seen["keys"] if key]) == 6


def test_an_unreadable_sample_is_a_line_in_the_gallery(graph):
    config = graph.config
    rejected = pl.read_parquet(graph.project.output / "catalog/rejected.parquet")
    latents = StorageResource().latents(config, "mel")
    place = ReportInputs(CatalogFigures(), rejected, graph.audio, {"mel": latents})
    names = list(graph.project.sizes())
    kept = {name: graph.audio.read(name) for name in names}
    index = read_index(graph.audio, names[0])
    flip_audio(graph.audio, index, 0)
    graph.audio.delete(names[1])
    try:
        contents = collect_contents(place)
    finally:
        for name, blob in kept.items():
            graph.audio.write(name, blob)
    assert len(contents.levels_db) == 8 - 1 - len(read_index(graph.audio, names[1]))
    assert index.key(0) not in {clip.key for clip in contents.clips}
    page = render_report(Report("tones", {"audio": read_snapshot(graph.audio)}, [], "", contents)).decode()
    assert f"/{names[0]}: sample {index.key(0)} cannot be read: " in page
    assert f"/{names[1]}: sample " in page


def test_of_many_unreadable_samples_a_few_are_named_and_all_are_counted():
    contents = ReportContents(unreadable=[f"<{i}>" for i in range(9)])
    page = render_report(Report("x", {}, [], "", contents)).decode()
    assert "<p>&lt;5&gt;</p>" in page
    assert "&lt;6&gt;" not in page
    assert "and 3 more" in page


def test_every_id_on_the_page_is_unique_and_every_reference_is_valid(page):
    ids = Counter(re.findall(r'\sid="([^"]*)"', page))
    references = re.findall(r'(?:url\(|href=")#([^")]*)', page)
    assert len(references) > 10
    assert set(ids.values()) == {1}
    assert set(references) <= set(ids)


def test_colours_follow_the_browsers_colour_scheme(page):
    assert "prefers-color-scheme:dark" in page
    assert "#010203" not in page
    assert "#020304" not in page
    assert 'name="viewport"' in page


def test_the_users_text_is_escaped(graph):
    snapshots = {"audio": read_snapshot(graph.audio)}
    contents = ReportContents(rejected=[("<script>x</script>.wav", "bad", "<b>")])
    page = render_report(Report("tones", snapshots, [("bad", 1)], "/data/<x>", contents)).decode()
    assert "<script>" not in page
    assert "/data/<x>" not in page


def test_equal_reports_give_equal_bytes(graph):
    rejected = pl.read_parquet(graph.project.output / "catalog/rejected.parquet")
    place = ReportInputs(CatalogFigures(), rejected, graph.audio, {})
    report = Report("tones", {"audio": read_snapshot(graph.audio)}, [], "", collect_contents(place))
    assert render_report(report) == render_report(report)


@pytest.mark.parametrize("seconds", [0.0, 0.01, 30.0])
@pytest.mark.parametrize("channels", [1, 2, 6])
def test_a_clip_of_any_length_and_channel_count_has_a_player(seconds, channels):
    samples = np.zeros((channels, round(seconds * RATE_HZ)), np.float32)
    page = render_report(
        Report("x", {}, [], "", ReportContents(clips=[GalleryClip("key", "train", samples, RATE_HZ, {})]))
    )
    assert len(elements(page.decode(), "audio")) == 1
    assert len(page) < 400_000


def test_clipped_samples_are_counted(tmp_path, undrawn):
    project = Project(tmp_path)
    project.write_tones(5)
    loud = 3.0 * np.sin(2 * np.pi * 440 * np.arange(800) / RATE_HZ)
    soundfile.write(project.recordings / "loud.wav", loud, RATE_HZ, subtype="FLOAT")
    project.write_yaml()
    graph = Graph(project)
    graph.build()
    assert graph.run(graph.keys.dataset_report).success
    assert "samples, 1 of them clipped" in (project.output / "report.html").read_text()
