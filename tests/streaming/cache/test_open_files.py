"""Number and choice of the files that a process keeps open."""

import resource
import subprocess
import sys
import textwrap

import pytest

from headrace.streaming.cache import open_files
from headrace.streaming.cache.open_files import OpenFiles
from headrace.streaming.cache.opened import FileShard
from tests.support.streaming.corpus import clips, write_dataset

pytestmark = pytest.mark.medium

NUM_STREAMS = 3
NUM_SHARDS = 24


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "shard.tar"
    path.write_bytes(b"shard")
    return FileShard(path)


def test_the_file_used_least_lately_is_let_go(file):
    files = OpenFiles()
    for shard in range(3):
        files.keep(shard, file, most=3)
    assert files.get(0) is file
    files.note(1, "let go")
    files.note(2, "kept")
    files.keep(3, file, most=3)
    files.note(1, "too late")
    assert files.notes == {2: "kept"}
    assert [shard for shard in range(4) if shard in files] == [0, 2, 3]


def test_streams_share_what_a_process_may_open(file, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (20, 20))
    monkeypatch.setattr(open_files, "_guard", open_files._Guard())  # what other tests keep does not count
    many, few = OpenFiles(), OpenFiles()
    for shard in range(9):
        many.keep(shard, file, most=50)
    for shard in range(4):
        few.keep(shard, file, most=50)
    assert len(many) + len(few) <= 10
    assert len(few) == 4


READ_ALL = textwrap.dedent("""
    import resource, sys
    from headrace import Stream, StreamingDataLoader, StreamingDataset
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    streams = [Stream(remote=remote) for remote in sys.argv[1:]]
    dataset = StreamingDataset(streams=streams, batch_size=4, shuffle=True, shuffle_algo="full")
    print(sum(4 - int(batch["is_padding"].sum()) for batch in StreamingDataLoader(dataset)))
""")

READ_IN_TURN = textwrap.dedent("""
    import os, resource, sys
    from headrace import StreamingDataLoader, StreamingDataset
    resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))
    datasets = []
    for _ in range(6):
        datasets.append(StreamingDataset(remote=sys.argv[1], batch_size=4))
        print(sum(len(batch["keys"]) for batch in StreamingDataLoader(datasets[-1])))
""")


def test_many_streams_of_many_shards_are_read_with_few_open_files(tmp_path):
    for number in range(NUM_STREAMS):
        write_dataset(tmp_path / str(number), {"train": clips(NUM_SHARDS, first=100 * number)}, per_shard=1)
    remotes = [str(tmp_path / str(number) / "audio") for number in range(NUM_STREAMS)]
    done = subprocess.run([sys.executable, "-c", READ_ALL, *remotes], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) == NUM_STREAMS * NUM_SHARDS


@pytest.mark.slow
def test_data_sets_of_latents_that_are_read_in_turn_share_what_a_process_may_open(tmp_path):
    write_dataset(tmp_path, {"train": clips(32)}, per_shard=1, latents=True)
    words = [sys.executable, "-c", READ_IN_TURN, str(tmp_path / "latents/crepe")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("32\n" * 6, "")
