"""`gc` and builds on one output, paused and killed at every step: no snapshot ever names a deleted file.

Explores a small model: after three builds, a fourth returns to the settings of the first while a `gc` removes the
shards of the first.
"""

import itertools
import random
import shutil
import time
from dataclasses import dataclass
from functools import partial

import pytest

from headrace.assemble.audio import build_partition
from headrace.assemble.commit import check_lasts, commit_partitions
from headrace.assemble.shard_settings import ShardSettings
from headrace.catalog.stored.partitions import recordings_of
from headrace.catalog.stored.update import update_catalog
from headrace.config.partitioning import Partitioning, ShardSize
from headrace.errors import HeadraceError
from headrace.format.indexes.index import index_name
from headrace.format.manifests.manifests import keys_path, manifest_path, newest_manifests
from headrace.format.shards.condemned import condemnations
from headrace.format.snapshots.commits import commit_snapshot
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.sources.sources import open_source
from headrace.stores.storage import LocalStorage, ObjectStorage, Storage
from headrace.upkeep.gc import collect, find_garbage
from tests.support.builds import PLAIN, Project
from tests.support.drills.scale import is_full, rounds
from tests.support.interleaving import Actor, KilledError, Stepped
from tests.support.streaming.corpus import clips, write_dataset

pytestmark = pytest.mark.medium

DAYS_SECONDS = 3 * 86_400.0
LAYOUT = Partitioning({"train": 1.0}, {"train": 1}, 2)
PARTITION = "train-0000"
SETTINGS = ShardSettings(PLAIN, ShardSize(LAYOUT.samples_per_shard))


@dataclass
class Model:
    """The initial output, and the two states of the source that builds start from."""

    project: Project
    recordings: dict[str, list]
    wanted: dict[str, dict[str, str]]
    files: dict[str, bytes]

    def fresh(self, storage: Storage) -> Storage:
        for path, blob in self.files.items():
            storage.write(path, blob)
        return storage

    def build(self, storage: Storage, state: str) -> None:
        audio = storage.at("audio")
        source = open_source(self.project.folder / f"source-{state}")
        build_partition(PARTITION, self.recordings[state], SETTINGS, source, audio, num_threads=1)
        commit_partitions(audio, self.wanted[state], f"catalog {state}")


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    project = Project(tmp_path_factory.mktemp("model"), layout=LAYOUT)
    made = Model(project, {}, {}, {})
    for state in ("one", "two", "three"):
        for number in range(4):
            project.put(f"clip{number}.wav", seed=f"{number} {state if number < 2 else ''}", num_frames=40)
        scan, catalog = update_catalog(project.config(), open_source(project.folder / "source"), None, project.output)
        made.recordings[state], made.wanted[state] = recordings_of(scan.recordings), {}
        for partition, digest in catalog.fingerprints.items():
            made.wanted[state][partition] = SETTINGS.wanted(digest)
        shutil.copytree(project.folder / "source", project.folder / f"source-{state}")  # with its file times
        made.build(project.output, state)
    made.files = {entry.path: project.output.read(entry.path) for entry in project.output.list()}
    return made


def gone(audio: Storage, number: int) -> list[str]:
    """Files that a snapshot names but that do not exist."""
    snapshot = read_snapshot(audio, number).snapshot
    there = {entry.path for entry in audio.list()}
    parts = [part.path for part in snapshot.parts]
    if missing := [path for path in parts if path not in there]:
        return missing
    shards = read_table(audio, snapshot).names()
    manifests = [manifest_path(partition, frozen) for partition, frozen in snapshot.manifests.items()]
    return [path for path in [*shards, *map(index_name, shards), *manifests] if path not in there]


def lost_keys(audio: Storage) -> list[str]:
    """Files of planned keys that the newest manifests name but that do not exist."""
    newest = newest_manifests(audio).items()
    paths = [keys_path(name, found.number, found.manifest.keys) for name, found in newest if found.manifest.keys]
    return [path for path in paths if not audio.exists(path)]


def check_created(audio: Storage, path: str) -> None:
    """Check that a snapshot is complete when it is committed. A snapshot with a reused number is withdrawn."""
    if path.startswith("snapshots/"):
        number = int(path.removeprefix("snapshots/").removesuffix(".json"))
        assert number != snapshot_numbers(audio)[-1] or gone(audio, number) == [], path


def builder(model: Model, storage: Storage, state: str = "one") -> Actor:
    return Actor(lambda actor: model.build(Stepped(storage, actor, check_created), state))


def collector(storage: Storage) -> Actor:
    def work(actor: Actor) -> None:
        seen = Stepped(storage, actor)
        collect(seen, find_garbage(seen, keep=1, now_seconds=time.time() + DAYS_SECONDS))

    return Actor(work)


def check(model: Model, storage: Storage, actors: list[Actor], schedule: object) -> None:
    """Check that only Headrace errors occurred, that all snapshots are complete, and that the next build succeeds."""
    for actor in actors:
        if actor.error is not None and not isinstance(actor.error, HeadraceError | KilledError):
            raise AssertionError(f"{schedule}: {actor.error!r}") from actor.error
    audio = storage.at("audio")
    assert [number for number in snapshot_numbers(audio) if gone(audio, number)] == [], schedule
    assert lost_keys(audio) == [], schedule
    model.build(storage, "one")
    newest = read_snapshot(audio)
    assert (newest.snapshot.catalog, newest.snapshot.num_samples) == ("catalog one", 4), schedule
    assert gone(audio, newest.number) == [], schedule
    assert not [entry for entry in audio.list("snapshots/") if entry.path.endswith(".proposed")] or any(
        isinstance(actor.error, KilledError) for actor in actors
    )


def steps_of(make, model: Model) -> int:
    actor = make(model.fresh(memory()))
    actor.finish()
    assert actor.error is None
    return actor.num_steps


def memory() -> Storage:
    return ObjectStorage("memory://")


@pytest.fixture(scope="module")
def num_steps(model):
    """The numbers of steps of an undisturbed `gc` and of an undisturbed build."""
    return steps_of(collector, model), steps_of(lambda storage: builder(model, storage), model)


def run(model: Model, storage: Storage, first: str, cuts: tuple[int, int]) -> None:
    """Run the first actor to its cut, the second to its cut, the first to its end, then the second to its end."""
    actors = {"gc": collector(storage), "build": builder(model, storage)}
    one = actors.pop(first)
    (other,) = actors.values()
    one.go(cuts[0])
    other.go(cuts[1])
    one.finish()
    other.finish()
    check(model, storage, [one, other], (first, cuts))
    assert condemnations(storage.at("audio")) == []


def test_gc_in_the_model_removes_the_shard_that_the_build_reuses(model):
    storage = model.fresh(memory())
    found = find_garbage(storage, keep=1, now_seconds=time.time() + DAYS_SECONDS)
    names = {shard for part in found for shard in part.paths if shard.endswith(".tar")}
    model.build(storage, "one")
    assert names & set(read_table(storage.at("audio"), read_snapshot(storage.at("audio")).snapshot).names())


@pytest.mark.parametrize("first", ["gc", "build"])
def test_one_actor_runs_completely_at_every_step_of_the_other(model, num_steps, first):
    longest = num_steps[first == "build"]
    for cut in range(longest + 1):
        run(model, model.fresh(memory()), first, (cut, 1 << 30))


@pytest.mark.slow
@pytest.mark.parametrize("first", ["gc", "build"])
def test_pairs_of_pauses(model, num_steps, first):
    ranges = [range(num_steps[0] + 1), range(num_steps[1] + 12)]
    if first == "build":
        ranges.reverse()
    pairs = list(itertools.product(*ranges))
    for cuts in random.Random(first).sample(pairs, rounds(len(pairs) // 12, len(pairs))):
        run(model, model.fresh(memory()), first, cuts)


@pytest.mark.parametrize("first", ["gc", "build"])
def test_every_pair_of_pauses_on_a_local_folder(model, num_steps, first, tmp_path):
    longest = num_steps[first == "build"]
    for cut in range(0, longest + 1, 3):
        folder = tmp_path / str(cut)
        run(model, model.fresh(LocalStorage(folder)), first, (cut, 1 << 30))
        shutil.rmtree(folder)


def test_one_actor_is_killed_at_every_step_while_the_other_continues(model, num_steps):
    """One of the two at each step; as a drill both at each step."""
    for cut in range(max(num_steps) + 1):
        for name in ("gc", "build") if is_full() else random.Random(cut).choices(("gc", "build")):
            storage = model.fresh(memory())
            gc, build = collector(storage), builder(model, storage)
            killed, other = (gc, build) if name == "gc" else (build, gc)
            killed.go(cut)
            other.go(num_steps[name == "gc"] // 2)
            killed.kill()
            other.finish()
            later = collector(storage)
            later.finish()
            check(model, storage, [killed, other, later], (name, cut))


def test_two_gcs_and_three_builds_in_random_orders(model):
    for seed in range(20):
        run_in_any_order(model, random.Random(seed))


@pytest.mark.slow
def test_two_gcs_and_three_builds_in_many_random_orders(model):
    for seed in range(20, rounds(80, 1500)):
        run_in_any_order(model, random.Random(seed))


def run_in_any_order(model: Model, chance: random.Random) -> None:
    storage = model.fresh(memory())
    states = ("one", "two", "one")
    actors = [collector(storage), collector(storage), *(builder(model, storage, state) for state in states)]
    waiting, schedule = list(actors), []
    while waiting:
        actor = chance.choice(waiting)
        length = chance.choice([1, 1, 2, 5, 20, 80])
        schedule.append((actors.index(actor), length))
        if chance.random() < 0.01:
            actor.kill()
        else:
            actor.go(length)
        waiting = [actor for actor in waiting if not actor.is_done]
    check(model, storage, actors, schedule)


def test_latents_are_committed_only_if_their_audio_snapshot_is_kept(tmp_path):
    write_dataset(tmp_path / "made", {"train": clips(2)}, latents=True)
    latents = LocalStorage(tmp_path / "made/latents/crepe")
    origin, manifests = read_snapshot(latents).snapshot.origin, newest_manifests(latents)
    latents.delete("snapshots/00000001.json")
    for count in (3, 4):
        write_dataset(tmp_path / "made", {"train": clips(count)})
    made = LocalStorage(tmp_path / "made")
    files = {entry.path: made.read(entry.path) for entry in made.list()}
    outcomes = set()
    for first in ("gc", "commit"):
        for cut in random.Random(first).sample(range(80), 50):
            storage = memory()
            for path, blob in files.items():
                storage.write(path, blob)

            def work(actor: Actor, storage: Storage = storage) -> None:
                seen = Stepped(storage, actor)
                audio = read_snapshot(seen.at("audio"), origin["audio_snapshot"])
                check = partial(check_lasts, seen.at("audio"), audio)
                commit_snapshot(seen.at("latents/crepe"), manifests, "catalog", origin, lambda _: check())

            gc, commit = collector(storage), Actor(work)
            one, other = (gc, commit) if first == "gc" else (commit, gc)
            one.go(cut)
            other.finish()
            one.finish()
            assert gc.error is None
            is_committed = snapshot_numbers(storage.at("latents/crepe")) == [1]
            assert is_committed == (commit.error is None)
            is_kept = 1 in snapshot_numbers(storage.at("audio"))
            assert not is_committed or (is_kept and gone(storage.at("audio"), 1) == [])
            outcomes.add((is_committed, is_kept))
    assert outcomes == {(True, True), (False, False)} | ({(False, True)} & outcomes)
