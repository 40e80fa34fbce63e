"""Whatever step meets an error of Headrace, its failure is the message of that error, without a traceback."""

import shutil

import dagster as dg
import pytest

from headrace.catalog.stored.column_header import header_path
from headrace.catalog.stored.header import HEADER_PATH
from headrace_dagster.assets.maintenance import gc_job
from headrace_dagster.assets.tags import range_tags
from headrace_dagster.assets.verification import verify_job
from tests.support.built import BuiltGraph
from tests.support.projects import Graph, Project
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]

QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@pytest.fixture(scope="module")
@nothing_drawn()
def built(tmp_path_factory):
    """A data set with a set of columns and a view, of which everything but the smoke test was made."""
    project = Project(tmp_path_factory.mktemp("readable"))
    project.write_titled_tones(4)
    (project.folder / "captions.csv").write_text("path,caption\ntone000.wav,a\n")
    project.write_yaml(
        splits={"all": 1.0},
        shards={"samples_per_shard": 2},
        columns=[{"name": "captions", "table": str(project.folder / "captions.csv"), "optional": True}],
        views={"some": {"where": "title != 'x'"}},
    )
    graph = Graph(project)
    graph.build()
    for name in ("metadata", "captions"):
        graph.run(graph.keys.columns(name), "all-0000")
        graph.run(graph.keys.columns_index(name))
    assert graph.run(graph.keys.view("some")).success
    return BuiltGraph(graph)


@pytest.fixture
def graph(built):
    return built.put_back()


def failures(result):
    """Step → the message of its own failure; None where Dagster reports an error that it did not expect."""
    failed = [event for event in result.all_events if event.is_step_failure]
    data = {event.step_key: event.step_failure_data.user_failure_data for event in failed}
    return {step: own and own.description for step, own in data.items()}


def upstream_of(project, name="output"):
    place = project.folder / name
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        shutil.copytree(project.output, place)
    return str(place)


SOURCES = {
    "no such view": ({"options": {"view": "nope"}}, "no snapshot of a view 'nope'"),
    "no such split": ({"options": {"split": "nope"}}, "has no split 'nope'"),
    "no such snapshot": ({"options": {"snapshot": 77}}, "77"),
    "a snapshot of two outputs": ({"uri": ["output", "b/other"], "options": {"snapshot": 1}}, "number of one output"),
    "two outputs of one name": ({"uri": ["output", "b/output"], "options": {"prefix": True}}, "have one name"),
    "no output": ({"uri": "recordings"}, "expected an output of Headrace"),
}


@pytest.mark.parametrize("case", SOURCES)
def test_a_source_that_cannot_be_opened(graph, case):
    settings, message = SOURCES[case]
    uri = settings.get("uri", "output")
    uri = [upstream_of(graph.project, one) for one in uri] if isinstance(uri, list) else upstream_of(graph.project, uri)
    below = Project(graph.project.folder / "below")
    below.folder.mkdir()
    below.write_yaml(source={"kind": "headrace", "settle_seconds": 0, **settings, "uri": uri})
    (said,) = failures(Graph(below).scan()).values()
    assert message in said


def checks_of(key):
    """Runs the checks of an asset that are steps of their own."""

    def run(graph):
        keys = [one for checks in graph.definitions.asset_checks for one in checks.check_keys]
        selection = dg.AssetSelection.checks(*(one for one in keys if one.asset_key == key(graph.keys)))
        jobs = dg.Definitions(jobs=[dg.define_asset_job("again", selection)])
        job = dg.Definitions.merge(graph.definitions, jobs).resolve_job_def("again")
        tags = range_tags(["all-0000"]) if key(graph.keys) == graph.keys.audio_shards else {}
        return job.execute_in_process(instance=graph.instance, tags=tags, raise_on_error=False, run_config=QUIET)

    return run


def asset(key, partition=None):
    return lambda graph: graph.run(key(graph.keys), partition)


def job(make):
    def run(graph):
        definitions = dg.Definitions.merge(graph.definitions, dg.Definitions(jobs=[make(graph.project.dataset())]))
        name = definitions.jobs[0].name
        return definitions.resolve_job_def(name).execute_in_process(
            instance=graph.instance, raise_on_error=False, run_config=QUIET
        )

    return run


HEADER, TABLE = HEADER_PATH, header_path("captions")
MANIFEST, SNAPSHOT = "audio/manifests/all-0000/*.json", "audio/snapshots/*.json"
VIEW = "views/some/snapshots/*.json"
STEPS = {
    "checks of the catalog": (HEADER, checks_of(lambda keys: keys.catalog), 3),
    "checks of the audio": (MANIFEST, checks_of(lambda keys: keys.audio_shards), 1),
    "checks of the snapshot": (HEADER, checks_of(lambda keys: keys.sizes_index), 1),
    "scan": (HEADER, asset(lambda keys: keys.catalog), None),
    "audio": (MANIFEST, asset(lambda keys: keys.audio_shards, "all-0000"), 1),
    "index": (HEADER, asset(lambda keys: keys.sizes_index), 1),
    "columns": (TABLE, asset(lambda keys: keys.columns("captions"), "all-0000"), 1),
    "index of columns": (TABLE, asset(lambda keys: keys.columns_index("captions")), 1),
    "view": (SNAPSHOT, asset(lambda keys: keys.view("some")), 1),
    "view with another snapshot": (VIEW, asset(lambda keys: keys.view("some")), 1),
    "report": (SNAPSHOT, asset(lambda keys: keys.dataset_report), 1),
    "garbage collection": (HEADER, job(gc_job), 1),
    "verification": (SNAPSHOT, job(verify_job), 1),
}


@pytest.mark.parametrize("case", STEPS)
def test_a_damaged_file_of_the_output(graph, case):
    path, run, num_failed = STEPS[case]
    found = list(graph.project.output.glob(path))
    assert found
    for file in found:
        file.write_text("damaged")
    said = failures(run(graph))
    assert num_failed in {None, len(said)}
    assert [step for step, message in said.items() if not message] == []
