import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from headrace.errors import AlreadyExistsError, BuildError, FormatError, NotFoundError
from headrace.format.indexes.index import index_name
from headrace.format.manifests.manifests import Manifest, NumberedManifest, manifest_path
from headrace.format.snapshots import commits, snapshots
from headrace.format.snapshots.shard_table import ShardTable
from headrace.format.snapshots.sizes_file import mend_sizes
from headrace.format.snapshots.snapshots import Snapshot, read_snapshot, read_table, snapshot_numbers
from headrace.format.versioned_json import versioned_bytes
from headrace.stores.storage import LocalStorage, open_storage
from tests.support.snapshots import entry
from tests.support.streaming.drills import wait_for


def manifests(*shards, number=1):
    found = {}
    for shard in shards:
        split, bucket, _ = shard.name.split("_")
        found.setdefault(f"{split}-{bucket}", []).append(shard)
    return {name: NumberedManifest(number, Manifest(name, "w", "s", {}, tuple(group))) for name, group in found.items()}


STATE = manifests(entry("train", 0, 0), entry("train", 0, 1, 3), entry("test", 0, 0, 2))


def commit_snapshot(storage, state, catalog, origin, check=lambda proposed: None):
    """Commit a snapshot after writing minimal files for its shards."""
    write_shards(storage, state)
    return commits.commit_snapshot(storage, state, catalog, origin, check)


def write_shards(storage, state):
    for partition, numbered in state.items():
        storage.write(manifest_path(partition, numbered.number), numbered.manifest.to_json())
        for shard in numbered.manifest.shards:
            storage.write(shard.name, bytes(shard.num_bytes))
            storage.write(index_name(shard.name), b"")


@pytest.fixture
def storage():
    return open_storage("memory://")


@pytest.mark.parametrize(
    "change",
    [
        {"partitions": {"train-0000": {"number": 1}}},
        {"partitions": []},
        {"splits": {"train": {"size": 1}}},
        {"parts": [{"name": "x"}]},
        {"more": 1},
    ],
)
def test_the_error_about_a_snapshot_of_another_form_names_it(change):
    content = {"catalog": "", "partitions": {}, "splits": {}, "parts": [], "partitions_per_part": 1, "fingerprint": ""}
    Snapshot.from_json(versioned_bytes("headrace_snapshot", content), "x")
    for other in (content | change, {name: value for name, value in content.items() if name not in change}):
        if other != content:
            with pytest.raises(FormatError, match=r"00000007\.json: an incomplete snapshot"):
                Snapshot.from_json(versioned_bytes("headrace_snapshot", other), "00000007.json")


def test_a_snapshot_of_a_view_is_named_as_one():
    blob = versioned_bytes("headrace_view", {"condition": "snr > 20"})
    with pytest.raises(FormatError, match=r"x: a snapshot of a view, .* pass view="):
        Snapshot.from_json(blob, "x")


@pytest.mark.medium
def test_no_flipped_bit_of_a_snapshot_or_its_table_is_accepted(storage):
    snapshot = commit_snapshot(storage, STATE, "catalog", {})[0].snapshot
    table = read_table(storage, snapshot)
    for sound, read in ((snapshot.to_json(), Snapshot.from_json), (table.to_bytes(), ShardTable.from_bytes)):
        for bit in range(8 * len(sound)):
            blob = bytearray(sound)
            blob[bit // 8] ^= 1 << bit % 8
            with pytest.raises(FormatError, match="x: "):
                read(bytes(blob), "x")


def test_a_snapshot_contains_the_manifests_of_all_partitions(storage):
    numbered, is_new = commit_snapshot(storage, STATE, "catalog", {})
    assert is_new
    assert numbered.number == 1
    snapshot = numbered.snapshot
    assert (snapshot.num_shards, snapshot.num_samples) == (3, 10)
    assert snapshot.splits["train"].seconds == 20.0
    assert snapshot.manifests == {"test-0000": 1, "train-0000": 1}
    assert Snapshot.from_json(snapshot.to_json(), "x") == snapshot
    assert read_snapshot(storage) == numbered
    table = read_table(storage, snapshot)
    assert json.loads(storage.read("sizes.json")) == dict(zip(table.names(), table.num_samples.tolist(), strict=True))


def test_an_equal_state_gives_no_new_snapshot(storage):
    first, _ = commit_snapshot(storage, STATE, "catalog", {})
    assert commit_snapshot(storage, STATE, "catalog", {}) == (first, False)
    assert snapshot_numbers(storage) == [1]
    for change in ({"catalog": "other"}, {"origin": {"encoder": "x"}}):
        options = {"catalog": "catalog", "origin": {}} | change
        _, is_new = commit_snapshot(storage, STATE, **options)
        assert is_new


def test_a_stale_or_missing_sizes_json_is_repaired_by_the_next_commit(storage):
    commit_snapshot(storage, STATE, "catalog", {})
    right = storage.read("sizes.json")
    for damage in (lambda: storage.delete("sizes.json"), lambda: storage.write("sizes.json", b"{}")):
        damage()
        assert not commit_snapshot(storage, STATE, "catalog", {})[1]
        assert storage.read("sizes.json") == right
    assert not mend_sizes(storage, read_snapshot(storage).snapshot)


def test_old_snapshots_stay_readable(storage):
    commit_snapshot(storage, STATE, "catalog", {})
    commit_snapshot(storage, manifests(entry("train", 0, 0), number=2), "catalog", {})
    assert len(read_table(storage, read_snapshot(storage, 1).snapshot)) == 3
    assert len(read_table(storage, read_snapshot(storage).snapshot)) == 1


def test_shards_without_samples_are_not_in_a_snapshot(storage):
    numbered, _ = commit_snapshot(storage, manifests(entry("train", 0, 0), entry("test", 0, 0, 0)), "c", {})
    assert numbered.snapshot.num_shards == 1
    assert numbered.snapshot.splits["test"].num_samples == 0


def test_an_empty_snapshot_can_be_committed(storage):
    numbered, _ = commit_snapshot(storage, {}, "c", {})
    assert read_table(storage, numbered.snapshot).names() == []
    assert storage.read("sizes.json") == b"{}\n"


def test_the_error_about_a_missing_snapshot_names_the_existing_ones(storage):
    with pytest.raises(NotFoundError, match="no snapshot yet"):
        read_snapshot(storage)
    commit_snapshot(storage, STATE, "c", {})
    with pytest.raises(NotFoundError, match=r"snapshot 7 is not there \(there are \[1\]\)"):
        read_snapshot(storage, 7)


def test_a_damaged_table_is_an_error(storage):
    numbered, _ = commit_snapshot(storage, STATE, "c", {})
    path = numbered.snapshot.parts[1].path
    storage.write(path, storage.read(path)[:-1] + b"\xff")
    with pytest.raises(FormatError, match=f"{path}: does not have the digest"):
        read_table(storage, numbered.snapshot)


@pytest.mark.medium
def test_a_missing_or_damaged_table_is_written_again_by_the_next_commit_of_its_state(storage):
    first, _ = commit_snapshot(storage, STATE, "c", {})
    path = first.snapshot.parts[1].path
    whole = storage.read(path)
    for harm in (lambda: storage.delete(path), lambda: storage.write(path, whole[:-1])):
        harm()
        assert commit_snapshot(storage, STATE, "c", {}) == (first, False)
        assert storage.read(path) == whole


def test_sizes_json_is_written_only_if_it_changes(storage):
    first, _ = commit_snapshot(storage, STATE, "c", {})
    assert not mend_sizes(storage, first.snapshot)
    storage.delete("sizes.json")
    assert mend_sizes(storage, first.snapshot)
    assert not mend_sizes(storage, first.snapshot)


def test_the_proposal_exists_during_the_check_and_a_failed_check_commits_nothing(storage):
    seen = []

    def refuse(proposed):
        assert proposed.num_samples == 10
        seen.extend(snapshots.proposed_snapshots(storage))
        raise BuildError("the audio is gone")

    with pytest.raises(BuildError, match="the audio is gone"):
        commit_snapshot(storage, STATE, "c", {"audio_snapshot": 4}, refuse)
    assert [(found.number, found.snapshot.origin) for found in seen] == [(1, {"audio_snapshot": 4})]
    assert snapshot_numbers(storage) == snapshots.proposals(storage) == []


@pytest.mark.parametrize(
    ("num_missing", "said"), [(1, "1 partitions .*: train-0000;"), (9, "9 .*train-0004 and 4 more;")]
)
def test_partitions_whose_shards_are_missing_are_named(storage, num_missing, said):
    state = manifests(*(entry("train", bucket, 0) for bucket in range(12)))
    write_shards(storage, state)
    for bucket in range(num_missing):
        storage.delete(state[f"train-{bucket:04d}"].manifest.shards[0].name)
    with pytest.raises(BuildError, match=said):
        commits.commit_snapshot(storage, state, "c", {})
    assert snapshot_numbers(storage) == []


@pytest.mark.parametrize("is_whole", [True, False])
def test_a_late_snapshot_is_kept_only_if_all_its_files_exist(storage, is_whole):
    """Its number was committed and collected while its writer paused, so later snapshots exist."""
    _, partitions = commit_snapshot(storage, STATE, "c", {})[0], manifests(entry("train", 0, 0))

    def overtake(proposed):
        storage.write("snapshots/00000009.json", storage.read("snapshots/00000001.json"))

    def lose(proposed):
        overtake(proposed)
        storage.delete(partitions["train-0000"].manifest.shards[0].name)

    if is_whole:
        assert commit_snapshot(storage, partitions, "d", {}, overtake)[0].number == 2
        assert snapshot_numbers(storage) == [1, 2, 9]
    else:
        with pytest.raises(AlreadyExistsError, match=r"00000002\.json: this number was used before"):
            commit_snapshot(storage, partitions, "d", {}, lose)
        assert snapshot_numbers(storage) == [1, 9]


def test_with_concurrent_writers_each_number_has_one_and_every_snapshot_is_complete(tmp_path):
    storage = LocalStorage(tmp_path)
    start, losers = threading.Barrier(6), []

    def write(writer):
        start.wait()
        state = manifests(*(entry("train", writer, sequence) for sequence in range(writer + 1)))
        for _ in range(50):
            try:
                commit_snapshot(storage, state, f"catalog {writer}", {})
            except AlreadyExistsError:
                losers.append(writer)
            else:
                return

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert snapshot_numbers(storage) == list(range(1, 7))
    found = [read_snapshot(storage, number).snapshot for number in range(1, 7)]
    assert {snapshot.catalog for snapshot in found} == {f"catalog {writer}" for writer in range(6)}
    for snapshot in found:
        writer = int(snapshot.catalog[-1])
        assert len(read_table(storage, snapshot)) == writer + 1


@pytest.mark.medium
def test_readers_during_commits_see_only_complete_snapshots(tmp_path):
    storage = LocalStorage(tmp_path)
    commit_snapshot(storage, STATE, "0", {})
    stop, seen = threading.Event(), []

    def read():
        while not stop.is_set():
            numbered = read_snapshot(storage)
            assert len(read_table(storage, numbered.snapshot)) == numbered.snapshot.num_shards
            assert sum(json.loads(storage.read("sizes.json")).values()) > 0
            seen.append(numbered.number)

    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read)
        try:
            wait_for(lambda: seen or reading.done())
            for round_ in range(1, 40):
                commit_snapshot(storage, manifests(*(entry("train", 0, s) for s in range(round_))), str(round_), {})
            wait_for(lambda: reading.done() or seen[-1] == 40)
        finally:
            stop.set()
        reading.result()
    assert seen == sorted(seen)
    assert (seen[0], seen[-1]) == (1, 40)


def test_a_million_shards_open_in_well_under_a_second(storage):
    count = 1_000_000
    table = ShardTable(
        "",
        ("train",),
        np.zeros(count, np.uint8),
        np.repeat(np.arange(1000, dtype=np.int32), 1000),
        np.tile(np.arange(1000, dtype=np.int32), 1000),
        np.zeros((count, 6), np.uint8),
        np.full(count, 1000, np.int32),
        np.full(count, 1 << 30, np.int64),
        np.full(count, 1 << 28, np.int64),
    )
    blob = table.to_bytes()
    assert len(blob) < 40_000_000
    began = time.process_time()
    found = ShardTable.from_bytes(blob, "x")
    assert int(found.num_samples.sum()) == 10**9
    assert found.name(999_999) == "train_0999_000999-000000000000.tar"
    assert time.process_time() - began < 0.5
