"""A glob or sizes.json inside an output of ours: a state names the snapshot that it was filtered by, and goes back."""

import json
from itertools import islice

import pytest

from headrace import StreamingDataLoader, StreamingDataset
from headrace.errors import ConfigError, StateError
from tests.support.streaming.corpus import clips, write_dataset

LISTS = ["train*.tar", "{train,test}_*.tar", "sizes.json"]


def opened(remote, **more):
    return StreamingDataset(remote=str(remote), split="train", batch_size=5, shuffle=True, **more)


def keys(dataset, count=None):
    loader = StreamingDataLoader(dataset)
    return [key for batch in islice(loader, count) for key in batch["keys"] if key]


def build(folder, first=0):
    """An output with its list of the newest snapshot, as a build writes it."""
    write_dataset(folder, {"train": clips(20, first=first), "test": clips(5, first=300)}, latents=True)
    dataset = StreamingDataset(remote=f"{folder}/audio")
    table = dataset.reading.readers[0].primary.shards.shards
    sizes = {table.name(number): int(count) for number, count in enumerate(table.num_samples)}
    (folder / "audio/sizes.json").write_text(json.dumps(sizes))


@pytest.mark.medium
@pytest.mark.parametrize("name", LISTS)
def test_a_state_of_a_list_inside_an_output_goes_on_after_a_rebuild(tmp_path, name):
    build(tmp_path)
    dataset = opened(f"{tmp_path}/audio/{name}")
    every = keys(opened(f"{tmp_path}/audio/{name}"))
    loader = StreamingDataLoader(dataset)
    rows = iter(loader)
    before = [key for _ in range(2) for key in next(rows)["keys"]]
    state = loader.state_dict()
    del rows
    assert state["streams"][0]["snapshot"] == 1
    build(tmp_path, first=100)
    assert set(keys(opened(f"{tmp_path}/audio/{name}"))).isdisjoint(every)
    resumed = opened(f"{tmp_path}/audio/{name}")
    resumed.load_state_dict(state)
    assert before + keys(resumed) == every
    assert set(keys(opened(f"{tmp_path}/audio/{name}", snapshot=1))) == set(every)


def test_a_list_of_ones_own_is_no_snapshot(tmp_path):
    build(tmp_path)
    sizes = json.loads((tmp_path / "audio/sizes.json").read_text())
    (tmp_path / "audio/mine.json").write_text(json.dumps(dict(list(sizes.items())[-2:])))
    dataset = opened(f"{tmp_path}/audio/mine.json")
    assert dataset.state_dict()["streams"][0]["snapshot"] is None
    with pytest.raises(ConfigError, match="snapshot=1 needs snapshots, and this is a plain WebDataset"):
        opened(f"{tmp_path}/audio/mine.json", snapshot=1)


@pytest.mark.parametrize("place", ["audio/train*.tar", "elsewhere/train*.tar"])
def test_a_folder_s_state_is_rejected_by_a_glob_with_a_remedy(tmp_path, place):
    build(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    for path in (tmp_path / "audio").glob("*.tar"):
        (tmp_path / "elsewhere" / path.name).write_bytes(path.read_bytes())
    state = opened(f"{tmp_path}/audio").state_dict()
    with pytest.raises(StateError, match="read the data set that it was saved on"):
        opened(f"{tmp_path}/{place}").load_state_dict(state)


@pytest.mark.medium
def test_a_state_without_its_snapshot_gives_an_error_that_says_how_to_name_it(tmp_path):
    build(tmp_path)
    state = opened(f"{tmp_path}/audio/train*.tar").state_dict()
    state["streams"][0]["snapshot"] = None  # as states were before
    opened(f"{tmp_path}/audio/train*.tar").load_state_dict(state)
    build(tmp_path, first=100)
    with pytest.raises(StateError, match=r"pass snapshot=… with the number .* if not 2"):
        opened(f"{tmp_path}/audio/train*.tar").load_state_dict(state)
    opened(f"{tmp_path}/audio/train*.tar", snapshot=1).load_state_dict(state)
