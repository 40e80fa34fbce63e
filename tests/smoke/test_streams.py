"""The small training job of the smoke test: what it saves, resumes and leaves behind."""

import contextlib
import subprocess
import sys
from types import SimpleNamespace

import pytest

from headrace import StreamingDataLoader
from headrace.config.operation import LoaderConfig
from headrace.smoke import streams as job
from headrace.smoke.run import SmokePart, smoke_test
from headrace.smoke.streams import (
    RankStreams,
    child_processes,
    leftover_processes,
    num_samples_opened,
    resumable_batch_size,
)
from headrace.stores.storage import LocalStorage
from tests.support.audio_shards import commit, noise, write_partition
from tests.support.output_builds import LENGTHS, Built, write_audio

IN_PROCESS = LoaderConfig(num_workers=0)
KEYS = [f"k{number}" for number in range(7)]


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    """Two audio shards with seven samples."""
    audio = LocalStorage(tmp_path_factory.mktemp("audio"))
    shards = [{key: noise(400, seed) for seed, key in enumerate(keys)} for keys in (KEYS[:4], KEYS[4:])]
    commit(audio, write_partition(audio, shards))
    return audio.uri


@pytest.fixture
def job_of(remote):
    """Makes a job of this batch size; its cache is deleted afterwards."""
    made = []

    def job_of(batch_size, **more):
        made.append(RankStreams(remote, None, IN_PROCESS, batch_size, **more))
        return made[-1]

    yield job_of
    for streams in made:
        streams.close()


def test_two_ranks_read_each_sample_once_in_a_shuffled_order_and_take_turns(job_of):
    streams = job_of(1)
    keys = [sample.key for sample in streams.arrivals()]
    assert sorted(keys) == KEYS
    assert keys != KEYS
    assert [keys[0::2], keys[1::2]] == [[key for (key,) in batches if key] for batches in streams.batches]


@pytest.mark.parametrize("batch_size", [1, 2, 3, 8])
def test_every_rank_reads_batches_before_and_after_resuming(job_of, batch_size):
    streams = job_of(resumable_batch_size(7, batch_size))
    list(streams.arrivals())
    assert 1 <= streams._middle == len(streams.batches[0]) // 2
    assert streams.resume_faults() == streams.batch_faults() == []


@pytest.mark.parametrize("spoilt", LENGTHS)
@pytest.mark.parametrize("batch_size", [1, 2])
def test_a_sample_without_latents_may_be_in_any_batch(tmp_path, spoilt, batch_size):
    write_audio(tmp_path)
    latents = Built(tmp_path, spoilt=spoilt).commit().storage
    with contextlib.closing(RankStreams(latents.uri, None, IN_PROCESS, batch_size, leaves_out=True)) as streams:
        assert len(list(streams.arrivals())) == len(LENGTHS) - 1
        assert streams.resume_faults() == []


@pytest.mark.medium
@pytest.mark.parametrize("spoilt", LENGTHS)
def test_the_smoke_test_of_a_set_with_a_rejected_sample_passes(tmp_path, spoilt):
    write_audio(tmp_path)
    latents = Built(tmp_path, spoilt=spoilt).commit().storage
    found = smoke_test({"latents": SmokePart.newest(latents)}, IN_PROCESS)["latents"]
    assert (found.num_streamed, {name: faults for name, faults in found.faults.items() if faults}) == (3, {})


def test_a_rank_with_one_batch_resumes_before_it(job_of):
    streams = job_of(8)
    list(streams.arrivals())
    assert (len(streams.batches[0]), streams._middle) == (1, 0)
    assert streams.resume_faults() == []


def test_the_first_batch_that_differs_after_resuming_is_named(job_of):
    streams = job_of(1)
    list(streams.arrivals())
    before = "resumed after 2 batches: 2 batches arrived, "
    streams.batches[0][3] = ["other"]
    assert streams.resume_faults() == [before + "2 were expected; the first difference is in batch 1"]
    streams.batches[0][3] = [""]  # a sample that was left out before comes
    assert streams.resume_faults() == [before + "2 were expected; the first difference is in batch 1"]
    streams.batches[0][2] = ["another"]
    assert streams.resume_faults() == [before + "2 were expected; the first difference is in batch 0"]


def test_batches_that_are_lost_or_added_after_resuming_are_an_error(job_of):
    streams = job_of(1)
    list(streams.arrivals())
    before = "resumed after 2 batches: 2 batches arrived, "
    last = streams.batches[0].pop()
    assert streams.resume_faults() == [before + "1 were expected; the first difference is in batch 1"]
    streams.batches[0] += [last, ["more"]]
    assert streams.resume_faults() == [before + "3 were expected; the first difference is in batch 2"]


def test_a_state_that_cannot_be_loaded_is_an_error(job_of):
    streams = job_of(2)
    list(streams.arrivals())
    streams._state = {"epoch": 0}
    (fault,) = streams.resume_faults()
    assert fault.startswith("resumed after 1 batches: reading failed: ")


def test_a_job_that_ends_before_it_can_be_saved_is_an_error(job_of):
    streams = job_of(1)
    samples = streams.arrivals()
    next(samples)
    samples.close()
    assert streams.resume_faults() == ["nothing to resume: the first rank stopped after 1 batches, before the middle"]


def test_a_job_that_ends_early_closes_its_loaders(job_of, monkeypatch):
    opened = []

    class RetainedFiles(StreamingDataLoader):
        def __iter__(self):
            opened.append(super().__iter__())
            return opened[-1]

    monkeypatch.setattr("headrace.streaming.loader.StreamingDataLoader", RetainedFiles)
    samples = job_of(1).arrivals()
    next(samples)
    samples.close()
    assert [batches.gi_frame for batches in opened] == [None, None]


def test_batches_must_be_of_one_size_and_equally_many(job_of):
    pair, single = ["a", "b"], ["c"]
    assert job_of(2, batches=[[pair, pair], [pair, pair]]).batch_faults() == []
    assert job_of(2, batches=[[pair], [pair, single]]).batch_faults() == [
        "the ranks got different numbers of batches: [1, 2]",
        "some batches have [1] samples instead of 2",
    ]


def test_a_batch_size_leaves_two_batches_to_each_rank_if_that_is_possible():
    sizes = {(7, 2): 2, (7, 8): 3, (6, 8): 2, (5, 8): 2, (2, 8): 1, (1, 8): 1}
    assert {asked: resumable_batch_size(*asked) for asked in sizes} == sizes


def test_a_snapshot_is_opened_with_all_its_samples(remote):
    assert num_samples_opened(remote, 1) == 7


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_programs_that_were_started_are_found_and_helpers_of_python_are_not():
    before = child_processes()
    with echo("program") as program, echo("forkserver"), echo("resource_tracker"):
        assert child_processes() - before == {program.pid}


@contextlib.contextmanager
def echo(name):
    """A process of this name that runs."""
    with subprocess.Popen([name], executable="/bin/cat", stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        process.stdin.write(b"x")
        process.stdin.flush()
        assert process.stdout.read(1) == b"x"
        yield process


def test_where_proc_is_missing_processes_are_those_that_python_knows(tmp_path, monkeypatch):
    monkeypatch.setattr(job, "_THREADS", tmp_path / "missing")
    monkeypatch.setattr(job.multiprocessing, "active_children", lambda: [SimpleNamespace(pid=pid) for pid in (5, None)])
    assert child_processes() == {5}


@pytest.mark.parametrize("error", [FileNotFoundError, ProcessLookupError])
def test_a_thread_that_ends_while_processes_are_counted_is_not_an_error(tmp_path, monkeypatch, error):
    def ended(_):
        raise error

    monkeypatch.setattr(job.Path, "read_text", ended)
    assert job._started_by(tmp_path) == []


def test_a_process_that_has_ended_has_no_command():
    assert job._command(-1) == ""


class Ending:
    """A process that ends after some looks, and the time that passes between them."""

    def __init__(self, monkeypatch, num_looks, patience):
        self.left, self.pauses = num_looks, []
        monkeypatch.setattr(job, "_PATIENCE_SECONDS", patience)
        monkeypatch.setattr(job, "child_processes", self.look)
        monkeypatch.setattr(job, "_command", lambda _: "long " * 100)
        clock = SimpleNamespace(monotonic=lambda: sum(self.pauses), sleep=self.pauses.append)
        monkeypatch.setattr(job, "time", clock)

    def look(self):
        self.left -= 1
        return {1, 2} if self.left < 0 else {1, 2, 3}


def test_processes_get_some_time_to_end(monkeypatch):
    ending = Ending(monkeypatch, num_looks=3, patience=1.0)
    assert leftover_processes({1, 2}) == []
    assert len(ending.pauses) == 3


def test_a_process_that_does_not_end_in_time_is_named_with_the_begin_of_its_command(monkeypatch):
    ending = Ending(monkeypatch, num_looks=3, patience=0.0)
    assert leftover_processes({1, 2}) == ["process 3 is still running: " + "long " * 20]
    assert ending.pauses == []
