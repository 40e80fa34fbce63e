"""The state before a build is recorded once, and compared with the state after it."""

import dagster as dg
import pytest

from headrace.assemble.audio_counts import AudioCounts
from headrace.assemble.changes import ShardsBefore
from headrace.stores.storage import LocalStorage
from headrace_dagster.build_command.ledger import Ledger
from headrace_dagster.build_command.runs import RunOutcome
from tests.support.streaming.corpus import clips, write_dataset

AUDIO, SMOKE = dg.AssetKey(["demo", "audio_shards"]), dg.AssetKey(["demo", "loader_smoke_test"])


@pytest.fixture
def ledger(tmp_path):
    seconds = iter([100.0, 107.0])
    return Ledger(LocalStorage(tmp_path), lambda: next(seconds))


def outcome(key, partition=None, seconds=1.0, faults=(), num_encoded=0):
    return RunOutcome(key, partition, "id", faults, seconds, AudioCounts(num_encoded))


def test_steps_have_the_sums_of_their_runs_and_the_whole_build_its_time(ledger, tmp_path):
    folder = LocalStorage(tmp_path / "audio")
    ledger.put_down(AUDIO, folder, ShardsBefore({}, {}, {"train-0000": "new"}), ["train-0000"])
    write_dataset(tmp_path, {"train": clips(8)})
    outcomes = [outcome(AUDIO, "train-0000", 2.0, num_encoded=8), outcome(AUDIO, None, 0.5), outcome(SMOKE)]
    changes = ledger.changes(outcomes)
    assert changes.seconds == 7.0
    audio, smoke = changes.steps
    assert (audio.name, audio.seconds, audio.audio.num_encoded) == ("audio_shards", 2.5, 8)
    assert audio.shards.num_written == 2
    assert (smoke.name, smoke.shards) == ("loader_smoke_test", None)
    assert changes.catalog is None


def test_the_first_state_counts_and_the_reasons_of_both(ledger, tmp_path):
    folder = LocalStorage(tmp_path / "audio")
    ledger.put_down(AUDIO, folder, ShardsBefore({}, {"old": 1}, {"p": "new"}), ["p"])
    ledger.put_down(AUDIO, folder, ShardsBefore({}, {"newer": 1}, {"p": "again", "q": "changed"}), ["p", "q"])
    before = ledger._entries[AUDIO].before
    assert (before.sizes, before.why) == ({"old": 1}, {"p": "new", "q": "changed"})


def test_what_was_to_be_built_and_was_not_reached_is_a_step_without_seconds(ledger, tmp_path):
    ledger.put_down(
        AUDIO, LocalStorage(tmp_path / "audio"), ShardsBefore({}, {}, {"train-0000": "new"}), ["train-0000"]
    )
    (step,) = ledger.changes([]).steps
    assert (step.name, step.seconds) == ("audio_shards", None)
