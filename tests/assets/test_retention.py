"""With the settings of dagster_home, the size of Dagster's records of ticks has a bound."""

# ruff: noqa: TID251

import shutil
import time
from pathlib import Path

import pytest
from dagster import DagsterInstance
from dagster._core.definitions.run_request import InstigatorType
from dagster._core.definitions.sensor_definition import SensorType
from dagster._core.remote_origin import (
    InProcessCodeLocationOrigin,
    RemoteInstigatorOrigin,
    RemoteRepositoryOrigin,
)
from dagster._core.scheduler.instigation import (
    InstigatorState,
    InstigatorStatus,
    SensorInstigatorData,
    TickData,
    TickStatus,
)
from dagster._core.types.loadable_target_origin import LoadableTargetOrigin

from headrace_dagster.build_command.repository import REPOSITORY_ROOT

pytestmark = pytest.mark.medium

DAY_SECONDS = 86_400
TICKS_PER_DAY = DAY_SECONDS // 5  # the daemon looks at every sensor every five seconds
SENSORS = 4
MOST_BYTES = 200_000_000


@pytest.fixture
def instance(tmp_path):
    shutil.copyfile(REPOSITORY_ROOT / "dagster_home/dagster.yaml", tmp_path / "dagster.yaml")
    with DagsterInstance.from_config(str(tmp_path)) as instance:
        yield instance


def test_ticks_that_did_nothing_are_kept_for_a_day(instance):
    days = instance.get_tick_retention_settings(InstigatorType.SENSOR)
    assert days[TickStatus.SKIPPED] == 1
    assert all(0 < days[status] <= 30 for status in (TickStatus.SUCCESS, TickStatus.FAILURE))


def test_the_ticks_kept_of_a_quiet_week_fit_into_a_bound(instance, tmp_path):
    """A day's ticks are written as the daemon writes them, purged as it purges them, and their size extrapolated."""
    origin = _origin()
    now = time.time()
    state = InstigatorState(
        origin, InstigatorType.SENSOR, InstigatorStatus.RUNNING, SensorInstigatorData(sensor_type=SensorType.STANDARD)
    )
    instance.add_instigator_state(state)
    count = 210
    empty = sum(path.stat().st_size for path in Path(tmp_path).rglob("schedules.db"))
    for i in range(count):
        _add_tick(instance, state, now - 7 * DAY_SECONDS + i * 7 * DAY_SECONDS / count)
    size = sum(path.stat().st_size for path in Path(tmp_path).rglob("schedules.db")) - empty
    days = instance.get_tick_retention_settings(InstigatorType.SENSOR)[TickStatus.SKIPPED]
    instance.purge_ticks(origin.get_id(), state.selector_id, now - days * DAY_SECONDS, [TickStatus.SKIPPED])
    kept = instance.get_ticks(origin.get_id(), state.selector_id)
    assert len(kept) == pytest.approx(count * days / 7, rel=0.05)
    bytes_kept = size / count * TICKS_PER_DAY * SENSORS * days
    assert bytes_kept < MOST_BYTES, f"{size / count:.0f} bytes a tick, {bytes_kept / 1e6:.0f} MB kept"


def _add_tick(instance: DagsterInstance, state: InstigatorState, at: float) -> None:
    data = TickData(
        instigator_origin_id=state.instigator_origin_id,
        instigator_name="demo_source_changes",
        instigator_type=InstigatorType.SENSOR,
        status=TickStatus.SKIPPED,
        timestamp=at,
        end_timestamp=at + 0.1,
        skip_reason="no change",
        selector_id=state.selector_id,
        cursor="f" * 32,
    )
    instance.create_tick(data)


def _origin() -> RemoteInstigatorOrigin:
    target = LoadableTargetOrigin(module_name="definitions")
    location = InProcessCodeLocationOrigin(target, location_name="headrace")
    return RemoteInstigatorOrigin(RemoteRepositoryOrigin(location, "__repository__"), "demo_source_changes")
