"""A scan or a new YAML that comes while runs wait or work: they end as superseded, and the sensors go on from there."""

import logging
from types import SimpleNamespace

import pytest

from headrace.catalog.stored.update import update_catalog
from headrace.errors import BuildError, CatalogError, StaleError
from headrace_dagster.assets import audio_shards, columns, latent_shards, sizes_index, superseded
from headrace_dagster.assets.tags import INPUT_TAG, PARTITION_TAG, SUPERSEDED_TAG, WORK_TAG
from headrace_dagster.sensors import alerts
from headrace_dagster.sensors.activity import attempts_at
from tests.support.built import SettledDaemon
from tests.support.daemons import Daemon, count, partitions_made
from tests.support.projects import Project
from tests.support.undrawn import nothing_drawn

pytestmark = [pytest.mark.medium, pytest.mark.usefixtures("undrawn")]

NAMES = [f"tone{number:03d}" for number in range(12)]


@pytest.fixture(scope="module")
@nothing_drawn()
def settled(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("superseded"))
    project.write_titled_tones(12)
    project.write_yaml(latents=[{"name": "mel", "encoder": {"kind": "log_mel"}}])
    daemon = Daemon(project)
    daemon.settle()
    return SettledDaemon(daemon)


@pytest.fixture
def daemon(settled):
    return settled.put_back()


def rescan(daemon):
    """A scan that ends at once, as another process makes it."""
    storage, config = daemon.storage, daemon.config
    update_catalog(config, storage.source(config), storage.metadata(config), storage.output(config))


def neighbours(daemon):
    """Recordings of the partition that has most."""
    by_partition = {}
    for name in NAMES:
        by_partition.setdefault(daemon.project.partition_of(f"{name}.wav"), []).append(name)
    return max(by_partition.values(), key=len)


def before_call(monkeypatch, module, name, do):
    """Let something happen just before the first call of a function that an asset uses."""
    own, calls = getattr(module, name), []

    def changed(*args, **kwargs):
        if not calls:
            calls.append(1)
            do()
        return own(*args, **kwargs)

    monkeypatch.setattr(module, name, changed)


def last_run(daemon):
    return daemon.instance.get_runs(limit=1)[0]


def alert_of_last_run(daemon):
    return alerts._alert(daemon.instance, last_run(daemon).run_id, [daemon.project.dataset()])[0]


def asked_for(daemon):
    """The run that a changed recording leads to, after its scan."""
    first, *_ = neighbours(daemon)
    daemon.project.write_tone(first, hz=999)
    assert daemon.run(daemon.tick("source_changes")[0]).success
    (request,) = daemon.tick("stale_partitions")
    return request


def delete_and_scan(daemon):
    (daemon.project.recordings / f"{neighbours(daemon)[1]}.wav").unlink()
    rescan(daemon)


def test_columns_of_a_partition_that_a_scan_changed_end_the_run_as_superseded(daemon, monkeypatch):
    request = asked_for(daemon)
    before_call(monkeypatch, columns, "build_columns", lambda: delete_and_scan(daemon))
    assert daemon.run(request).success
    assert last_run(daemon).tags[SUPERSEDED_TAG] == "the input changed"
    assert alert_of_last_run(daemon) is None
    assert attempts_at(daemon.instance, [request.tags[WORK_TAG]]) == {}
    (following,) = daemon.tick("stale_partitions")
    assert following.partition_key == request.partition_key
    assert following.tags[WORK_TAG] != request.tags[WORK_TAG]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("module", "name"),
    [
        (audio_shards, "build_partition"),
        (columns, "build_columns"),
        (latent_shards, "build_latent_partition"),
        (sizes_index, "committed_unless_superseded"),
        (columns, "committed_unless_superseded"),
    ],
)
@pytest.mark.parametrize("change", ["deleted", "replaced", "added"])
def test_a_scan_at_any_step_of_a_run_fails_nothing(daemon, monkeypatch, module, name, change):
    request = asked_for(daemon)
    other = neighbours(daemon)[1]

    def change_and_scan():
        if change == "deleted":
            (daemon.project.recordings / f"{other}.wav").unlink()
        else:
            daemon.project.write_tone(other if change == "replaced" else "more", hz=777)
        rescan(daemon)

    before_call(monkeypatch, module, name, change_and_scan)
    assert daemon.run(request).success
    assert alert_of_last_run(daemon) is None
    made = daemon.settle()
    assert all(run.success for run in made)
    assert len(partitions_made(made)) == len(set(partitions_made(made)))
    assert count(made, "loader_smoke_test") == 1
    assert sum(daemon.project.sizes().values()) == {"deleted": 11, "replaced": 12, "added": 13}[change]


def test_a_partition_that_fails_while_its_input_is_as_it_was_asked_for_fails(daemon, monkeypatch):
    request = asked_for(daemon)

    def fail():
        raise BuildError("the disk is full")

    before_call(monkeypatch, columns, "build_columns", fail)
    assert not daemon.run(request).success
    assert SUPERSEDED_TAG not in last_run(daemon).tags
    assert "the disk is full" in alert_of_last_run(daemon).text


def run_by_tags(daemon, tags):
    """A run of a partition's audio that was queued with these tags."""
    return daemon.job.execute_in_process(
        instance=daemon.instance,
        asset_selection=[daemon.project.keys.audio_shards, daemon.project.keys.columns("metadata")],
        tags=tags,
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


def test_a_run_of_a_partition_that_the_yaml_no_longer_has_sends_no_alert(daemon):
    gone = {PARTITION_TAG: "train-0099"}
    run_by_tags(daemon, {**gone, WORK_TAG: "t"})  # it left the queue before a sensor could cancel it: Dagster fails it
    assert alert_of_last_run(daemon) is None
    run_by_tags(daemon, gone)  # of a person, who gets an alert
    assert alert_of_last_run(daemon) is not None


def test_a_run_that_waited_while_the_yaml_changed_is_superseded_before_its_scan(daemon):
    request = asked_for(daemon)
    daemon.project.write_yaml(splits={"train": 0.5, "test": 0.5})
    daemon.reload()
    assert daemon.run(request).success
    assert SUPERSEDED_TAG in last_run(daemon).tags


STALE = StaleError("1 of 4 partitions is not up to date")


@pytest.mark.parametrize(
    ("asked", "error", "is_superseded"),
    [
        ("before", STALE, True),
        ("before", CatalogError("scanned with other splits"), True),
        ("before", BuildError("the disk is full"), False),
        ("now", STALE, False),
        (None, STALE, False),
    ],
)
def test_a_commit_of_partitions_that_got_stale_since_is_superseded(monkeypatch, asked, error, is_superseded):
    noted = {}
    run = SimpleNamespace(run_id="r", tags={} if asked is None else {INPUT_TAG: asked})
    instance = SimpleNamespace(add_run_tags=lambda run_id, tags: noted.update(tags))
    context = SimpleNamespace(run=run, instance=instance, log=logging.getLogger("test"))
    monkeypatch.setattr(superseded, "input_version", lambda config, output: "now")

    def commit():
        raise error

    if is_superseded:
        assert superseded.committed_unless_superseded(context, None, None, commit) is None
        assert noted == {SUPERSEDED_TAG: "the input changed"}
    else:
        with pytest.raises(type(error), match=str(error)):
            superseded.committed_unless_superseded(context, None, None, commit)
        assert noted == {}
