"""Ranks agree, and a run that is cut and resumed in worlds of any size reads the same global batches."""

import json
from pathlib import Path

import pytest

from headrace import StreamingDataLoader, World
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.streaming.fault_server import fault_server
from tests.support.streaming.modes import BATCH_MULTIPLE, MODES, open_mode

WORLDS = [size for size in range(1, 13) if BATCH_MULTIPLE % size == 0]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Audio with latents: 131 training samples in 19 shards, 17 for testing."""
    made = tmp_path_factory.mktemp("elastic")
    write_dataset(made, {"train": clips(131), "test": clips(17, first=300)}, per_shard=7, latents=True)
    return made


@pytest.fixture
def elsewhere(folder, monkeypatch):
    """Files of `folder` behind an HTTP server."""
    with fault_server(folder) as face:
        for name, value in face.environment().items():
            monkeypatch.setenv(name, value)
        yield face.uri


def test_worlds_that_are_cut_and_resumed(folder, elsewhere, tmp_path, drill):
    def one_round(chance):
        mode = chance.choice(MODES)
        more = {"shuffle_seed": chance.randrange(1 << 30)}
        if mode != "plain" and chance.random() < 0.5:
            more["shuffle_block_size"] = chance.choice([8, 64, 4096])
        wanted, want_lengths, _ = run(folder, chance, mode, 1, None, None, tmp_path, more)
        state, found, sizes = None, [], []
        while len(found) < len(wanted):
            size = chance.choice(WORLDS)
            count = chance.randint(1, max(1, len(wanted) - len(found)))
            place = chance.choice([folder, folder, elsewhere])
            part, lengths, state = run(place, chance, mode, size, state, count, tmp_path, more)
            found += part
            sizes.append(size)
            assert want_lengths[0] == len(wanted)
            assert lengths[0] == len(wanted) - len(found) + len(part), "ranks say another number of batches"
        assert found == wanted, f"{mode}, worlds {sizes}"
        return mode

    drill.repeat(one_round, small=3, full=80)


def run(place, chance, mode, size, state, count, cache, more):  # noqa: PLR0913, PLR0917 - the settings of a run
    """Global batches (keys, lengths) of one epoch or a part of it, numbers of batches by rank, the state of all."""
    ranks, states, lengths = [], [], []
    for rank in range(size):
        local = {} if isinstance(place, Path) else {"local": str(cache / "cache")}
        dataset = open_mode(place, mode, batch_size=BATCH_MULTIPLE // size, world=World(rank, size), **more, **local)
        loader = StreamingDataLoader(
            dataset, num_threads=chance.choice([1, 2]), num_workers=chance.choice([0] * 9 + [1])
        )
        if state is not None:
            loader.load_state_dict(state)
        lengths.append(len(loader))
        batches = iter(loader)
        ranks.append([])
        for _ in range(count if count is not None else len(loader)):
            batch = next(batches)
            keys = batch["keys"] if isinstance(batch["keys"], list) else list(batch["keys"])
            ranks[-1].append(list(zip(keys, batch["num_frames"].tolist(), strict=True)))
        states.append(json.dumps(loader.state_dict(), sort_keys=True))
        batches.close()
    assert len(set(states)) == 1, "ranks have other states"
    assert len(set(lengths)) == 1, f"ranks have other numbers of batches: {lengths}"
    together = [[row for rows in zip(*parts, strict=True) for row in rows] for parts in zip(*ranks, strict=True)]
    return together, lengths, json.loads(states[0])
