"""`headrace simulate` as a user runs it: the table, the advice, and one-line errors."""

import pytest

from headrace import cli
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """400 samples in 80 shards."""
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": clips(400, frames=(40, 80))})
    return folder


@pytest.fixture
def run(capsys, monkeypatch):
    """Run `headrace simulate`. Returns exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "300")

    def run_one(path, world_size, batch_size, *more):
        options = ["--world-size", world_size, "--batch-size", batch_size, *more]
        code = cli.main(["simulate", *map(str, (path, *options))])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return run_one


@pytest.mark.medium
def test_a_view_and_a_condition_are_simulated(run, output):
    write_view(output, "few", lambda key: int(key < "clip00010"))
    code, out, _ = run(output, 2, 1, "--view", "few")
    assert code == 0
    assert "5 batches on each of 2 ranks" in out
    assert "shards read, of 2" in out
    assert run(output, 2, 1, "--where", "snr > 3")[0] == 1  # there are no columns


@pytest.mark.medium
def test_it_shows_how_much_hosts_read(run, output):
    code, out, err = run(output, 16, 1)
    assert (code, err) == (0, "")
    assert "25 batches on each of 16 ranks" in out
    assert "host 0 of 2" in out
    assert "host 1 of 2" in out
    assert "shards read, of 80" in out
    assert "waiting" not in out
    assert "·" not in out  # no advice


def test_with_a_bandwidth_and_a_step_time_it_shows_the_waits(run, output):
    _, out, _ = run(f"{output}/audio", 4, 4, "--bandwidth", "1kb", "--step-seconds", "0.1")
    assert "network a second, on average" in out
    assert "first batch after" in out
    assert "its bandwidth is too low" in out


def test_it_explains_why_hosts_share_shards_and_its_advice_helps(run, output):
    _, shared, _ = run(output, 20, 1, "--ranks-per-host", 5)
    assert "Each shard is read by 4 of 4 hosts. With num_canonical_nodes=60 and shuffle_block_size=300" in shared
    advised = ("--num-canonical-nodes", 60, "--shuffle-block-size", 300)
    assert "Each shard is read" not in run(output, 20, 1, "--ranks-per-host", 5, *advised)[1]


def test_it_reports_a_cache_that_is_too_small(run, output):
    _, out, _ = run(output, 2, 4, "--cache-limit", "5kb", "--ranks-per-host", 1)
    assert "A cache_limit of 5kb is less than the" in out


def test_it_simulates_a_part_of_a_long_epoch(run, output):
    _, out, _ = run(output, 8, 1, "--batches", 10, "--hosts", 1)
    assert "50 batches on each of 8 ranks, 8 on a host (the first 10 are simulated)" in out


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--ranks-per-host", "3"), "ranks_per_host=3 does not divide 4 ranks"),
        (("--bandwidth", "fast"), "bandwidth 'fast'"),
        (("--split", "dev"), "no split 'dev'"),
        (("--shuffle-algo", "py9"), "shuffle_algo 'py9' is not known"),
    ],
)
def test_contradictory_arguments_are_reported_in_one_line(run, output, more, message):
    code, _, err = run(output, 4, 1, *more)
    assert code == 1
    assert message in err
    assert "Traceback" not in err
