"""The arithmetic of a loader's counters, by a clock that is set by hand."""

import pytest

from headrace.streaming.stats import ConsumerMeter, Stage, StageSeconds

IN_SECONDS = {"_WARN_AFTER_BATCHES": 3, "_WARN_AFTER_SECONDS": 10.0, "_WARN_SHARE": 0.5}


class Clock:
    """Seconds, as a test sets them."""

    seconds = 100.0

    def __call__(self):
        return self.seconds


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def warned(monkeypatch, recwarn):
    """Warnings about starving, early and at half of the time: others' threads may warn, too."""
    for name, value in IN_SECONDS.items():
        monkeypatch.setattr(f"headrace.streaming.stats.{name}", value)
    return lambda: [text for warning in recwarn if "training loop" in (text := str(warning.message))]


def take(meter, clock, *, waits, works):
    """One batch: seconds of waiting for it, then seconds of work on it."""
    began = meter.begin()
    clock.seconds += waits
    meter.waited(began)
    meter.delivered(8)
    clock.seconds += works


def test_before_the_first_batch_nothing_was_waited_for(clock):
    meter = ConsumerMeter(clock=clock)
    clock.seconds += 5
    assert (meter.elapsed_seconds, meter.wait_seconds, meter.wait_share) == (0, 0, 0)


def test_the_wait_share_is_that_of_the_time_since_the_first_wait(clock):
    meter = ConsumerMeter(clock=clock)
    clock.seconds += 50
    take(meter, clock, waits=3, works=1)
    take(meter, clock, waits=1, works=11)
    assert (meter.num_batches, meter.num_samples) == (2, 16)
    assert (meter.elapsed_seconds, meter.wait_seconds, meter.wait_share) == (16, 4, 0.25)


@pytest.mark.parametrize(
    ("fetch", "decode", "advice"), [(2.0, 1.0, "raise predownload"), (1.0, 2.0, "raise num_threads")]
)
def test_a_loop_that_waits_much_is_warned_once_with_the_setting_to_raise(clock, warned, fetch, decode, advice):
    meter, work = ConsumerMeter(clock=clock), StageSeconds(fetch, decode)
    for _ in range(5):
        take(meter, clock, waits=3, works=1)
        meter.warn_once(work)
    (text,) = warned()
    assert "75% of its time waiting" in text
    assert advice in text


@pytest.mark.parametrize(
    ("count", "waits", "works"),
    [pytest.param(2, 9, 1, id="few batches"), pytest.param(9, 0.9, 0.1, id="soon"), pytest.param(9, 4, 5, id="busy")],
)
def test_a_loop_that_waits_little_is_not_warned(clock, warned, count, waits, works):
    meter = ConsumerMeter(clock=clock)
    for _ in range(count):
        take(meter, clock, waits=waits, works=works)
        meter.warn_once(StageSeconds())
    assert not warned()


def test_work_adds_up_by_stage():
    work = StageSeconds()
    work.add(Stage.FETCH, 1.0)
    work.add(Stage.DECODE, 2.0)
    work.add(Stage.FETCH, 4.0)
    assert work.seconds() == {Stage.FETCH: 5.0, Stage.DECODE: 2.0}
