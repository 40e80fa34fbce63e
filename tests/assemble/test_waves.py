"""Tests of `headrace.assemble.waves`."""

import pytest

from headrace.assemble.waves import (
    FINISH,
    Attempts,
    Decision,
    PartitionWork,
    Pause,
    RunLimits,
    RunPatience,
    Situation,
    decide,
)

WORK = PartitionWork(("audio", "mel"), "token")


def situation(**changes) -> Situation:
    return Situation(**{"partitions": {"train-0000": WORK, "train-0001": WORK}, "finish": None, **changes})


def test_stale_partitions_are_started_and_the_end_waits_for_them():
    assert decide(situation()) == Decision({"train-0000": WORK, "train-0001": WORK}, finish=False, paused={})


def test_the_only_partition_of_a_wave_takes_the_end_with_it():
    assert decide(situation(partitions={"train-0000": WORK})).finish


def test_a_partition_at_work_is_not_started_again():
    decision = decide(situation(running={"train-0000"}))
    assert list(decision.partitions) == ["train-0001"]
    assert decision.paused == {"train-0000": Pause.RUNNING}


def test_nothing_is_built_while_the_source_is_being_scanned():
    assert set(decide(situation(is_scanning=True)).paused.values()) == {Pause.RUNNING}


def test_starts_are_bounded_by_tick_and_by_what_is_in_flight():
    many = {f"train-{i:04d}": WORK for i in range(100)}
    assert len(decide(situation(partitions=many)).partitions) == RunLimits().starts_per_tick
    running = {f"train-{i:04d}" for i in range(14)}
    assert len(decide(situation(partitions=many, running=running)).partitions) == RunLimits().runs_in_flight - 14


def test_of_much_audio_each_stage_is_a_run_of_its_own():
    assert {work.stages for work in decide(situation(hours=100.0)).partitions.values()} == {("audio",)}
    assert {work.stages for work in decide(situation(hours=1.0)).partitions.values()} == {WORK.stages}


def test_the_end_is_made_once_and_not_beside_itself():
    assert decide(situation(partitions={}, finish="end")).finish
    assert decide(situation(partitions={}, finish="end", is_finishing=True)).paused == {FINISH: Pause.RUNNING}


@pytest.mark.parametrize(
    ("attempts", "pause"),
    [
        (Attempts(1, 5.0), Pause.BACKING_OFF),
        (Attempts(1, 15.0), None),
        (Attempts(2, 100.0), Pause.BACKING_OFF),
        (Attempts(2, 121.0), None),
        (Attempts(3, 1e9), Pause.RESTING),
    ],
)
def test_failing_work_backs_off_and_then_rests(attempts, pause):
    decision = decide(
        situation(partitions={"train-0000": WORK}, attempts={"token": attempts}),
        RunLimits(patience=RunPatience((15.0, 120.0))),
    )
    assert decision.paused == ({"train-0000": pause} if pause else {})


RESTS = {"token": Attempts(3, 1e9)}


@pytest.mark.parametrize(
    ("changes", "is_made"),
    [
        ({}, True),
        ({"rest": None}, False),
        ({"attempts": {"token": Attempts(2, 1.0)}}, False),
        ({"attempts": {}}, False),
        ({"attempts": RESTS | {"the rest": Attempts(3, 1e9)}}, False),
        ({"running": {"test-0000"}}, False),
        ({"is_scanning": True}, False),
        ({"is_finishing": True}, False),
        ({"partitions": {}}, False),
        ({"partitions": {"train-0000": WORK, "train-0001": PartitionWork(("mel",), "other")}}, False),
    ],
)
def test_the_rest_is_made_once_all_partitions_rest(changes, is_made):
    state = situation(**{"attempts": RESTS, "rest": "the rest", **changes})
    assert decide(state, RunLimits(patience=RunPatience((15.0, 120.0)))).rest == is_made
