"""Real torch.distributed runs on gloo: equal batches, one snapshot, resume on other numbers of ranks."""

import json
import os
import re
from itertools import chain

import pytest
import torch
import torch.distributed
import torch.multiprocessing

from headrace import FrameBudget, LengthBuckets, Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, StateError
from tests.support.fork_server import processes_with
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view

pytestmark = pytest.mark.slow

GLOBAL_BATCH = 12
WAYS = {
    "windows in a mixture": {},
    "length buckets": {"batching": LengthBuckets(2)},
    "frame budget": {"batching": FrameBudget(frames_per_batch=12 * 900, batch_multiple=12)},
    "frame budget that drops": {"batching": FrameBudget(12 * 900, batch_multiple=12), "last_batch": "drop"},
    "own batches": {"batching_method": "per_stream"},
    "excluded": {"exclude": ["clip00003", "clip00203"]},
}
"""Ways to read a mixture by proportions, whose larger stream is cut into windows."""


@pytest.fixture(scope="module", autouse=True)
def imported():
    """Let the fork server import what all ranks need, once."""
    processes_with("headrace.streaming.loader", "torch.distributed")


def in_ranks(function, arguments, size):
    """Call a function with each rank of a world, in a process of its own."""
    torch.multiprocessing.start_processes(function, arguments, nprocs=size, start_method="forkserver")


def opened(folder, way, size, **more):
    """The dataset of a rank, read in one of `WAYS` or in a view."""
    base = {"batch_size": GLOBAL_BATCH // size, "shuffle": True, "local": f"{folder}/cache"} | more
    if way not in WAYS:
        return StreamingDataset(remote=f"{folder}/audio", split="train", view=way, **base)
    streams = [
        Stream(f"{folder}/audio", split=split, proportion=share, **more)
        for split, share, more in (("train", 3, {"window_seconds": 0.05}), ("test", 1, {}))
    ]
    return StreamingDataset(streams=streams, **WAYS[way], **base)


def run(folder, size, out, *, state=None, stop=None, commit_late=False, view=None):  # noqa: PLR0913 - a run's parts
    """Train on `size` ranks. Returns each global batch's keys, and rank 0's state at the end."""
    path = out / f"run-{size}-{stop}"
    arguments = (size, f"{path}.meeting", str(folder), str(path), json.dumps(state), stop, commit_late, view)
    in_ranks(_rank, arguments, size)
    ranks = [json.loads((path.parent / f"{path.name}.{rank}").read_text()) for rank in range(size)]
    assert len({len(rank["keys"]) for rank in ranks}) == 1
    assert len({json.dumps(rank["state"]) for rank in ranks}) == 1
    batches = zip(*(rank["keys"] for rank in ranks), strict=True)
    return [[key for row in zip(*parts, strict=True) for key in row] for parts in batches], ranks[0]["state"]


def _rank(rank, size, meeting, folder, path, state, stop, commit_late, view):  # noqa: PLR0913, PLR0917 - for spawn
    from pathlib import Path

    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=size)
    if commit_late and rank == 1:
        _commit_while_rank_one_starts(Path(folder))
    loader = StreamingDataLoader(opened(folder, view, size), num_workers=rank % 2)
    if json.loads(state) is not None:
        loader.load_state_dict(json.loads(state))
    keys = []
    for batch in loader:
        keys.append(batch["keys"])
        torch.distributed.all_reduce(torch.ones(1))  # as a training step does: unequal batches would hang here
        if len(keys) == stop:
            break
    Path(f"{path}.{rank}").write_text(json.dumps({"keys": keys, "state": loader.state_dict()}))
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _commit_while_rank_one_starts(folder):
    """Once rank 0 has looked, a new snapshot appears before this rank looks."""
    from headrace.streaming.opened import agreement

    look = agreement._open_as

    def late(*arguments):
        write_dataset(folder, {"train": clips(60)})
        return look(*arguments)

    agreement._open_as = late


def expected(folder, view=None):
    return [batch["keys"] for batch in StreamingDataLoader(opened(folder, view, 1, world=World()))]


def test_resume_on_four_then_two_then_three_ranks(dataset_folder, tmp_path):
    whole = expected(dataset_folder)
    first, state = run(dataset_folder, 4, tmp_path, stop=2)
    second, state = run(dataset_folder, 2, tmp_path, state=state, stop=1)
    third, state = run(dataset_folder, 3, tmp_path, state=state)
    assert first + second + third == whole
    assert state["epoch"] == 1


@pytest.mark.parametrize("way", WAYS)
def test_a_mixture_resumes_on_two_then_three_ranks(dataset_folder, tmp_path, way):
    whole = expected(dataset_folder, way)
    first, state = run(dataset_folder, 2, tmp_path, stop=2, view=way)
    second, state = run(dataset_folder, 3, tmp_path, state=state, view=way)
    assert first + second == whole
    assert len(second) > 1
    assert state["epoch"] == 1


def test_a_view_resumes_on_four_then_two_then_three_ranks(dataset_folder, tmp_path):
    write_view(dataset_folder, "some", lambda key: int(key[-2:]) % 3)
    whole = expected(dataset_folder, "some")
    first, state = run(dataset_folder, 4, tmp_path, stop=2, view="some")
    write_view(dataset_folder, "some", lambda key: 1)  # a newer snapshot of the view: the state keeps its own
    second, state = run(dataset_folder, 2, tmp_path, state=state, stop=1, view="some")
    third, state = run(dataset_folder, 3, tmp_path, state=state, view="some")
    assert first + second + third == whole
    assert state["streams"][0]["view"]["snapshot"] == 1


def test_all_ranks_read_one_snapshot_even_if_a_new_one_is_committed_while_they_start(tmp_path):
    write_dataset(tmp_path / "data", {"train": clips(30)})
    whole = expected(tmp_path / "data")
    found, _ = run(tmp_path / "data", 2, tmp_path, commit_late=True)
    assert found == whole
    assert StreamingDataset(remote=f"{tmp_path}/data/audio").size == 60


def test_a_dataset_made_before_torch_distributed_is_up_gets_an_error_that_says_so(dataset_folder, tmp_path):
    in_ranks(_too_early, (str(tmp_path / "meeting"), str(dataset_folder)), 2)


DIFFERENT = {
    "shuffle_seed": [{"shuffle_seed": 1}, {"shuffle_seed": 2}],
    "shuffle": [{}, {"shuffle": False}],
    "global_batch_size": [{"batch_size": 2}, {"batch_size": 4}],
    "last_batch": [{}, {"last_batch": "drop"}],
    "buckets": [{}, {"batching": FrameBudget(frames_per_batch=8000)}],
    "samples per epoch": [{"epoch_size": 40}, {"epoch_size": 48}],
    "data": [{}, {"split": "test"}],
    "exclude": [{}, {"exclude": ["clip00003"]}],
}
"""Field that the error names → the arguments of each rank, which would take its rows of other batches."""


@pytest.mark.parametrize("is_late", [False, True])
def test_ranks_that_would_read_different_orders_are_an_error(dataset_folder, tmp_path, is_late):
    in_ranks(_different, (str(tmp_path / "meeting"), str(dataset_folder), is_late), 2)


def _different(rank, meeting, folder, is_late):
    def made(**more):
        base = {"remote": f"{folder}/audio", "split": "train", "batch_size": 2, "shuffle": True, "local": folder}
        return StreamingDataset(**base | more)

    def check(act, name):
        if rank == 0:
            act()
        else:
            with pytest.raises(ConfigError, match=rf"{name}.* on rank 0.*: give all ranks the same"):
                act()

    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    late = {name: made(**arguments[rank]) for name, arguments in DIFFERENT.items()} if is_late else {}
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    for name, arguments in DIFFERENT.items():
        if is_late:
            check(lambda dataset=late[name]: next(iter(dataset)), name)
        else:
            check(lambda more=arguments[rank]: made(**more), name)
    made(fields=[["metadata"], ["audio"]][rank], columns=(), transform=[None, dict][rank])  # the order is the same
    made(world=World(), shuffle_seed=rank)  # each rank reads everything, in an order of its own
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


PLACES = {
    "both load one state": (["middle", "middle"], None),
    "one loads no state": (["middle", None], "row of the epoch"),
    "another row": (["middle", "later"], "row of the epoch"),
    "another epoch": (["next", None], "epoch"),
    "another snapshot": ([None, "old"], "data"),
    "another mixture before": (["mixed", "unmixed"], "phases"),
    "other paths to the data": ([None, None], None),
}
"""The state that each rank loads, and the field that the error names: that of the rank that is the last to begin."""


@pytest.mark.parametrize("is_late", [False, True])
def test_ranks_that_go_on_at_different_places_are_an_error(tmp_path, is_late):
    write_dataset(tmp_path, {"train": clips(40), "test": clips(20, first=40)})
    folder = str(tmp_path)
    old = opened_mixture(folder, World()).state_dict(0)
    write_dataset(tmp_path, {"train": clips(41), "test": clips(20, first=41)})
    states = {"old": old}
    states |= {name: opened_mixture(folder, World()).state_dict(n) for name, n in (("middle", 8), ("later", 16))}
    states["next"] = opened_mixture(folder, World()).state_dict(10_000)
    states["unmixed"] = opened_mixture(folder, World(), shares=(1, 1)).state_dict(8)
    mixed = opened_mixture(folder, World(), shares=(1, 3), change_streams=True)
    mixed.load_state_dict(states["unmixed"])
    states["mixed"] = mixed.state_dict(8)
    for rank in range(2):
        (tmp_path / f"of-rank-{rank}").symlink_to("audio")
    in_ranks(_at_places, (f"{folder}/meeting", folder, json.dumps(states), is_late), 2)


def opened_mixture(folder, world=None, *, shares=(3, 1), change_streams=True, name="audio"):
    streams = [
        Stream(f"{folder}/{name}", split=s, proportion=p) for s, p in zip(("train", "test"), shares, strict=True)
    ]
    return StreamingDataset(streams=streams, batch_size=4, world=world, change_streams=change_streams)


def _at_places(rank, meeting, folder, states, is_late):
    found = json.loads(states)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    mine = {name: f"of-rank-{rank}" if name == "other paths to the data" else "audio" for name in PLACES}
    late = {name: opened_mixture(folder, name=mine[name]) for name in PLACES} if is_late else {}
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    for name, (loads, field) in PLACES.items():
        dataset = late.get(name) or opened_mixture(folder, name=mine[name])
        if loads[rank] is not None:
            dataset.load_state_dict(found[loads[rank]])
        raised = []
        try:
            next(iter(StreamingDataLoader(dataset)))
        except (ConfigError, StateError) as error:
            raised.append(re.match(rf"{field}: .* on rank {rank}, but .* on rank {1 - rank}, ", str(error)))
        found_by_all = [None, None]
        torch.distributed.all_gather_object(found_by_all, [one is not None for one in raised])
        assert [*chain.from_iterable(found_by_all)] == ([] if field is None else [True]), (name, raised, found_by_all)
    alone = opened_mixture(folder)
    if rank == 0:  # no rank waits for another
        assert len([*StreamingDataLoader(alone), *StreamingDataLoader(alone)]) > 1
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def test_ranks_that_agree_late_stay_on_the_snapshot_of_their_state(tmp_path):
    write_dataset(tmp_path, {"train": clips(30)})
    folder = str(tmp_path)
    state = StreamingDataset(remote=f"{folder}/audio", batch_size=2).state_dict()
    write_dataset(tmp_path, {"train": clips(60)})
    in_ranks(_late_with_state, (f"{folder}/meeting", folder, json.dumps(state)), 2)


def _late_with_state(rank, meeting, folder, state):
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2"}
    dataset = StreamingDataset(remote=f"{folder}/audio", batch_size=2)
    dataset.load_state_dict(json.loads(state))
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    assert len(list(StreamingDataLoader(dataset))) == 8
    assert dataset.size == 30
    torch.distributed.barrier()
    torch.distributed.destroy_process_group()


def _too_early(rank, meeting, folder):
    dataset = StreamingDataset(remote=f"{folder}/audio", batch_size=2)
    torch.distributed.init_process_group("gloo", f"file://{meeting}", rank=rank, world_size=2)
    with pytest.raises(ConfigError, match="after init_process_group"):
        next(iter(dataset))
    torch.distributed.barrier()  # who ends while another still connects makes it fail
    torch.distributed.destroy_process_group()
