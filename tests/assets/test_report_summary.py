"""The page of the report's asset shows a summary, and leads to the report."""

import dagster as dg
import pytest

from headrace_dagster.assets.report_summary import report_link, summary, where_words
from tests.support.projects import Graph, Project
from tests.support.undrawn import nothing_drawn

pytestmark = pytest.mark.medium

BASE = "https://files.example.org"


@pytest.fixture(scope="module")
@nothing_drawn()
def graph(tmp_path_factory):
    """A data set without its report: four samples, one reject."""
    project = Project(tmp_path_factory.mktemp("summary"))
    project.write_tones(4)
    (project.recordings / "bad.wav").write_bytes(b"RIFF no sound")
    project.write_yaml(splits={"train": 1.0}, shards={"samples_per_shard": 4})
    graph = Graph(project)
    graph.build()
    return graph


@pytest.mark.parametrize("base", ["", BASE])
def test_the_report_shows_its_numbers_and_where_it_is(graph, base, monkeypatch):
    monkeypatch.setenv("HEADRACE_REPORT_URL", base)
    assert graph.run(graph.keys.dataset_report).success
    made = graph.instance.get_latest_materialization_event(graph.keys.dataset_report).asset_materialization
    text = made.metadata["summary"]
    assert next(iter(made.metadata)) == "summary"
    assert isinstance(text, dg.MarkdownMetadataValue)
    assert "| audio | train | 4 | " in text.value
    assert "1 files or rows are rejected:\n\n- " in text.value
    assert str(graph.project.output / "report.html") in text.value
    if base:
        link = made.metadata["page_link"]
        assert (type(link), link.value) == (dg.UrlMetadataValue, f"{BASE}/tones/report.html")
        assert f"({BASE}/tones/report.html)" in text.value
    else:
        assert "page_link" not in made.metadata
        assert "HEADRACE_REPORT_URL" in text.value


@pytest.mark.parametrize("base", [BASE, f"{BASE}/", f" {BASE}/{{name}} ", f"{BASE}/{{name}}/"])
def test_the_link_has_the_name_of_the_data_set(base):
    assert report_link({"HEADRACE_REPORT_URL": base}, "birds", "report.html") == f"{BASE}/birds/report.html"


@pytest.mark.parametrize("environment", [{}, {"HEADRACE_REPORT_URL": " "}])
def test_without_a_server_there_is_no_link(environment):
    assert report_link(environment, "birds", "report.html") is None
    assert "open it in a browser" in where_words(None, "/data/report.html")


def test_without_rejects_the_summary_says_so():
    assert summary({}, [], "here").endswith("No file or row is rejected.")
