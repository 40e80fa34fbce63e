"""Decisions of a tick of `source_changes` about listings, settings, tables and runs, and the content of its cursor."""

from types import SimpleNamespace

import dagster as dg
import pytest

from headrace.assemble.waves import Attempts
from headrace.config.dataset import DatasetConfig
from headrace.sources.source_changes import SourceDifference
from headrace_dagster.assets.events import INPUTS_TAG
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.assets.tags import DATASET_TAG, SCAN_TAG
from headrace_dagster.sensors import source_changes
from headrace_dagster.sensors.activity import ActiveRun
from tests.support.instances import memory_instance

DATASET = ProjectDataset.named(
    DatasetConfig(name="birds", source={"uri": "a", "settle_seconds": 10}, output={"uri": "b"})
)
KEYS = DATASET.keys
NS = 10**9


class FakeProject:
    """Project that a tick asks; changes between ticks are made by setting attributes."""

    def __init__(self):
        self.inputs, self.header, self.catalog, self.listing = "inputs", "h1", "a catalog", "listing"
        self.difference = SourceDifference(is_changed=False, num_waiting=0, digest="d")
        self.tables, self.runs, self.attempts, self.held = {}, [], {}, None
        self.last = dg.AssetMaterialization(KEYS.catalog, tags={INPUTS_TAG: "inputs"})
        self.made, self.now, self.listed, self.compared, self.cursor = "run1", 5000.0, [], [], None
        self.is_late, self.num_files, self.says = False, 7, "listing the source: 7 files so far"

    def source(self, config):
        return "the source"

    def output(self, config):
        return "the output"

    def table_stamps(self, config):
        return {
            name: None if seconds is None else SimpleNamespace(mtime_ns=round((self.now - seconds) * NS))
            for name, seconds in self.tables.items()
        }

    def go_on(self, source, version, now):
        self.listed.append((source, version, now))
        return self.listing and SimpleNamespace(digest=self.listing)

    def source_difference(self, listing, known, settle_seconds, now_ns):
        self.compared.append((listing.digest, known, settle_seconds, now_ns))
        return self.difference

    def why_held(self, config):
        return self.held

    def latest(self, key):
        return self.last and SimpleNamespace(
            asset_materialization=None if self.last == "not one" else self.last, run_id=self.made, timestamp=7.0
        )


@pytest.fixture(scope="module")
def instance():
    return memory_instance()


@pytest.fixture
def project(instance, monkeypatch):
    fake = FakeProject()
    replaced = {
        "source_inputs": lambda config, storage: fake.inputs,
        "SourceListing": lambda: fake,
        "header_version": lambda output: fake.header,
        "read_current_header": lambda output, config: fake.catalog,
        "read_stamps": lambda output, catalog: f"stamps of {catalog}",
        "source_difference": fake.source_difference,
        "active_runs": lambda instance, dataset: fake.runs[:1],
        "pending_runs": lambda instance, graph: fake.runs[1:],
        "attempts_at": lambda _, tokens, _tags: {
            token: found for token, found in fake.attempts.items() if token in tokens
        },
        "time": SimpleNamespace(time=lambda: fake.now, time_ns=lambda: round(fake.now * NS)),
    }
    for name, value in replaced.items():
        monkeypatch.setattr(source_changes, name, value)
    monkeypatch.setattr(instance, "get_latest_materialization_event", fake.latest)
    sensor = source_changes.source_changes_sensor(DATASET, fake, fake)

    def tick():
        """One tick: the request of a run, or why nothing starts. The cursor is kept as Dagster keeps it."""
        context = dg.build_sensor_context(instance=instance, cursor=fake.cursor, definitions=dg.Definitions())
        result = sensor(context)
        if isinstance(result, dg.SkipReason):
            return result.skip_message
        fake.cursor, fake.events = result.cursor, result.asset_events
        return result.run_requests[0] if result.run_requests else result.skip_reason.skip_message

    fake.tick, fake.sensor = tick, sensor
    return fake


CHANGED = SourceDifference(is_changed=True, num_waiting=2, digest="d")


def test_the_sensor_is_named_after_the_data_set_and_runs_by_default(project):
    assert project.sensor.name == "birds_source_changes"
    assert project.sensor.default_status is dg.DefaultSensorStatus.RUNNING


def test_a_source_that_did_not_change_is_compared_once(project):
    assert project.tick() == "no change"
    assert project.compared == [("listing", "stamps of a catalog", 10.0, 5000 * NS)]
    for _ in range(2):
        assert project.tick() == "no change"
    assert len(project.compared) == 1
    for change in ({"listing": "other"}, {"header": "h2"}, {"inputs": "others", "tables": {"t": 1.0}}):
        vars(project).update(change)
        project.tick()
    assert len(project.compared) == 4


def test_a_changed_source_is_scanned_first_and_its_work_has_a_token(project):
    project.difference = CHANGED
    request = project.tick()
    assert request.asset_selection == [KEYS.catalog]
    assert request.tags == {DATASET_TAG: "birds", SCAN_TAG: request.tags[SCAN_TAG], "dagster/priority": "1"}
    tokens = {request.tags[SCAN_TAG]}
    project.difference = SourceDifference(is_changed=True, num_waiting=0, digest="other")
    tokens.add(project.tick().tags[SCAN_TAG])
    project.made = "run2"
    tokens.add(project.tick().tags[SCAN_TAG])
    assert len(tokens) == 3
    assert project.cursor is None


def test_before_the_first_scan_the_source_is_compared_with_nothing(project):
    project.catalog = None
    project.tick()
    assert project.compared[0][1] is None


def test_files_that_still_change_are_looked_at_again(project):
    project.difference = SourceDifference(is_changed=False, num_waiting=3, digest="d")
    for number in range(1, 3):
        assert project.tick() == "3 files are still settling"
        assert (project.cursor, len(project.compared)) == (None, number)


@pytest.mark.parametrize("last", [None, "not one", dg.AssetMaterialization(KEYS.catalog)])
def test_a_catalog_without_known_inputs_is_made_again(project, last):
    project.last = last
    assert project.tick().asset_selection == [KEYS.catalog]


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    ("tables", "is_scanned"),
    [({}, True), ({"gone": None}, True), ({"t": 10.0}, True), ({"old": 99.0, "t": 9.5}, False), ({"t": -9.5}, False)],
)
def test_other_settings_and_tables_are_scanned_when_no_table_is_still_being_written(
    project, tables, is_scanned, is_large
):
    project.tables, project.inputs = tables, "others"
    project.listing = None if is_large else "listing"
    found = project.tick()
    if is_scanned:
        assert found.asset_selection == [KEYS.catalog]
    else:
        assert found.endswith("7 files so far" if is_large else "files are still settling")
        project.tables = {"t": 10.0}
        assert project.tick().asset_selection == [KEYS.catalog]


def test_a_source_is_compared_when_it_is_listed_and_a_tick_says_how_far_it_is(project):
    project.listing, project.cursor = None, "a mark"
    for _ in range(3):
        assert project.tick() == "listing the source: 7 files so far"
        assert (project.cursor, project.compared) == ("a mark", [])
    assert project.listed == [("the source", "h1", 5000.0)] * 3
    project.listing, project.difference = "listing", CHANGED
    assert project.tick().asset_selection == [KEYS.catalog]


def test_without_a_catalog_the_scan_does_not_wait_for_the_listing(project):
    project.listing = project.catalog = None
    project.held = "held"
    assert project.tick() == "held"
    project.held = None
    assert project.tick().tags[SCAN_TAG]


def test_a_listing_is_not_compared_with_a_catalog_that_was_made_meanwhile(project, monkeypatch):
    versions = iter(["h1", "h2"])
    monkeypatch.setattr(source_changes, "header_version", lambda output: next(versions))
    project.difference = CHANGED
    assert project.tick() == "the catalog changed while the source was listed: it is listed again"


def test_a_source_that_is_not_listed_in_time_is_a_check_of_the_catalog_until_it_is(project):
    project.listing, project.says = None, "only 7 files were listed within 1 h"
    own = project.go_on

    def late(*asked, is_late=True):
        project.is_late = is_late
        return own(*asked)

    project.go_on = late
    assert project.tick() == "only 7 files were listed within 1 h"
    (said,) = project.events
    assert (said.asset_key, said.check_name, said.passed) == (KEYS.catalog, "listed_in_time", False)
    assert said.severity is dg.AssetCheckSeverity.WARN
    project.tick()
    assert project.events == []  # it is said once
    project.listing, project.go_on = "listing", lambda *asked: late(*asked, is_late=False)
    assert project.tick() == "no change"
    (said,) = project.events
    assert said.passed


def run_of(*keys, seconds=1.0):
    return ActiveRun(frozenset(keys), (), seconds)


IRRELEVANT = run_of(KEYS.audio_shards)
COMMITTING = "a snapshot is being committed, and a new catalog would make the commit fail"


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (run_of(KEYS.catalog, seconds=999.0), "a scan is in progress"),
        (run_of(KEYS.sizes_index, seconds=29.5), COMMITTING),
        (run_of(KEYS.sizes_index, seconds=30.0), None),
        (IRRELEVANT, None),
    ],
)
def test_a_scan_waits_for_a_scan_and_some_time_for_a_commit(project, run, reason):
    project.difference = CHANGED
    for runs in ([run], [IRRELEVANT, run]):
        project.runs = runs
        found = project.tick()
        assert (None if isinstance(found, dg.RunRequest) else found) == reason


def test_a_data_set_that_is_held_is_not_scanned(project):
    project.difference, project.held = CHANGED, "held back: tones.yaml changed"
    assert project.tick() == "held back: tones.yaml changed"
    project.held = None
    assert project.tick().asset_selection == [KEYS.catalog]


def test_a_failed_scan_is_tried_again_after_a_wait(project):
    project.difference = CHANGED
    token = project.tick().tags[SCAN_TAG]
    project.attempts = {token: Attempts(1, 14.0), "other": Attempts(9, 0.0)}
    assert project.tick() == "the scan failed: backing off"
    project.attempts = {token: Attempts(1, 15.0)}
    assert project.tick().tags[SCAN_TAG] == token
    project.attempts = {token: Attempts(3, 1e9)}
    assert project.tick() == "the scan failed: resting"
