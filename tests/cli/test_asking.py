"""`headrace seen`, `batch` and `bill` as a user runs them, compared with what a loader delivers."""

import json
import re
from collections import Counter
from dataclasses import replace

import pytest

from headrace import FrameBudget, Stream, StreamingDataLoader, StreamingDataset, cli
from headrace.streaming.asked import answers
from headrace.upkeep.tar_indexes import index_tars
from tests.support.column_fixtures import write_columns
from tests.support.foreign_tars import write_tars
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view

CLIPS = {clip.key: clip for clip in (*clips(37, frames=(40, 80)), *clips(11, frames=(40, 80), first=37))}
SETTINGS = {"shuffle": True, "num_canonical_nodes": 4, "batch_size": 8}


def singer(key):
    return ["ann", "bob", None][int(key[-2:]) % 3]


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """37 samples in the split train and 11 in test, latents, a view, and the columns `metadata`."""
    folder = tmp_path_factory.mktemp("output")
    found = list(CLIPS.values())
    write_dataset(folder, {"train": found[:37], "test": found[37:]}, latents=True)
    write_columns(folder, "metadata", {"singer": ("string", singer)})
    write_columns(folder, "tags", {"mood": ("int", lambda key: int(key[-2:]) % 2)})
    write_view(folder, "few", lambda key: int(key[-2:]) % 3)
    return folder


@pytest.fixture
def run(capsys):
    """Run a command with --json. Returns exit code, the printed object, and standard error."""

    def run_one(*words):
        code = cli.main([*map(str, words), "--json"])
        captured = capsys.readouterr()
        return code, json.loads(captured.out) if captured.out else None, captured.err

    return run_one


def trained(dataset, num_batches, folder):
    """Read this many batches over epochs. Returns the file of the state, and the batches."""
    loader, batches = StreamingDataLoader(dataset), []
    while len(batches) < num_batches:
        for batch in loader:
            batches.append([key for key in batch["keys"] if key])
            if len(batches) == num_batches:
                break
    path = folder / "state.json"
    path.write_text(json.dumps(loader.state_dict()))
    return path, batches


def check(run, state, remotes, batches, share=0):
    """Compare all three commands with the delivered batches; hours may be off by a share."""
    counts = Counter(key for batch in batches for key in batch)
    for key in (*list(CLIPS)[::19], *list(counts)[:1]):
        code, found, _ = run("seen", state, "--key", key, *remotes)
        assert (code, found["times"] if found else 0) == (0 if counts[key] else 1, counts[key])
    code, found, _ = run("bill", state, *remotes)
    assert (code, found["samples"]) == (0, counts.total())
    seconds = sum(CLIPS[key].num_frames / CLIPS[key].rate_hz * count for key, count in counts.items())
    assert found["hours"] == pytest.approx(seconds / 3600, rel=share or 1e-6)
    for by, label in (("singer", singer), ("tags.mood", lambda key: int(key[-2:]) % 2)):
        expected = Counter()
        for key, count in counts.items():
            expected[label(key)] += count
        _, found, _ = run("bill", state, "--by", by, *remotes)
        assert {row["group"][0]: row["samples"] for row in found["rows"]} == expected


@pytest.mark.medium
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"split": "train"},
        {"view": "few"},
        {"where": "singer = 'ann'"},
        {"latents": ["crepe"]},
        {"latents": ["crepe"], "view": "few", "columns": ["tags"]},
        {"batching": "length_buckets", "split": "train"},
        {"shuffle_algo": "full", "last_batch": "drop"},
    ],
    ids=str,
)
def test_the_answers_are_what_a_loader_delivered(run, output, tmp_path, more):
    state, batches = trained(StreamingDataset(remote=f"{output}/audio", **SETTINGS, **more), 12, tmp_path)
    check(run, state, ("--remote", f"{output}/audio"), batches)


@pytest.mark.medium
@pytest.mark.parametrize("num_batches", [5, 6, 12])  # an epoch has six
def test_a_bill_of_many_shards_says_that_its_hours_are_estimates(run, output, tmp_path, monkeypatch, num_batches):
    monkeypatch.setattr(answers, "MOST_INDEXES" if num_batches == 5 else "MOST_SAMPLES", 0)
    state, batches = trained(StreamingDataset(remote=f"{output}/audio", **SETTINGS), num_batches, tmp_path)
    check(run, state, ("--remote", f"{output}/audio"), batches, share=0 if num_batches % 6 == 0 else 0.2)
    _, found, _ = run("bill", state, "--by", "split", "--remote", f"{output}/audio")
    splits = Counter("train" if key in list(CLIPS)[:37] else "test" for batch in batches for key in batch)
    assert {row["group"][0]: row["samples"] for row in found["rows"]} == splits
    assert found["is_estimated"]
    assert not run("bill", state, "--by", "singer", "--remote", f"{output}/audio")[1]["is_estimated"]


@pytest.mark.parametrize("more", [{}, {"batching": "length_buckets"}, {"batching": FrameBudget(400, 2)}], ids=str)
def test_a_batch_is_the_one_that_a_loader_delivers_at_that_step(run, output, tmp_path, more):
    settings = {**SETTINGS, "split": "train", **more}
    state, batches = trained(StreamingDataset(remote=str(output), **settings), 2, tmp_path)
    code, found, _ = run("batch", state, "--step", 1, "--remote", output)
    assert (code, [row["key"] for row in found["rows"] if row["key"]]) == (0, batches[1])
    assert {row["stream"] for row in found["rows"] if row["key"]} == {"data"}
    code, _, err = run("batch", state, "--step", 99, "--remote", output)
    assert (code, "step 99: epoch 0 has" in err) == (1, True)


@pytest.mark.parametrize("folder", ["audio", "latents/crepe"])
def test_a_batch_is_listed_though_its_audio_is_damaged_or_its_latents_were_rejected(run, tmp_path, folder):
    clips_with_rejects = [replace(clip, rejection="not_finite" if clip.number == 1 else "") for clip in clips(4)]
    write_dataset(tmp_path, {"train": clips_with_rejects}, latents=True)
    settings = {"on_bad_sample": "skip", "on_missing_latents": "zeros", "batch_size": 2}
    state, batches = trained(StreamingDataset(remote=f"{tmp_path}/{folder}", **settings), 1, tmp_path)
    for tar in (tmp_path / "audio").rglob("*.tar"):
        tar.write_bytes(tar.read_bytes().replace(b"fLaC", b"none"))
    code, found, _ = run("batch", state, "--step", 0)
    assert (code, [row["key"] for row in found["rows"]]) == (0, batches[0])


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("seen", "--key", "none"), "no stream of the state has the key 'none'"),
        (("bill", "--by", "height"), "no column 'height' in the set metadata: its columns are"),
    ],
)
def test_a_question_without_an_answer_is_one_error(run, output, tmp_path, command, message):
    state, _ = trained(StreamingDataset(remote=str(output), **SETTINGS), 1, tmp_path)
    code, found, err = run(command[0], state, *command[1:], "--remote", output)
    assert (code, found) == (1, None)
    assert message in err
    assert run(command[0], tmp_path / "gone.json", *command[1:])[0] == 1
    (tmp_path / "bad.json").write_text("{}")
    assert "headrace_state is None" in run(command[0], tmp_path / "bad.json", *command[1:])[2]


@pytest.mark.parametrize(
    ("change", "message"),
    [({"streams": []}, "has no streams"), ({"worker": {"id": 0, "num_workers": 2, "next_batch": 3}}, "of one worker")],
)
def test_a_state_that_does_not_say_what_was_delivered_is_an_error(run, output, tmp_path, change, message):
    state, _ = trained(StreamingDataset(remote=str(output), **SETTINGS), 1, tmp_path)
    state.write_text(json.dumps(json.loads(state.read_text()) | change))
    code, _, err = run("bill", state)
    assert (code, message in err) == (1, True)


@pytest.mark.parametrize(
    ("more", "is_said"),
    [({}, False), ({"view": "few"}, True), ({"where": "singer = 'bob'"}, True), ({"window_seconds": 9}, True)],
    ids=str,
)
def test_a_key_that_is_not_found_may_be_left_out_by_the_choice_of_samples(run, output, tmp_path, more, is_said):
    path = tmp_path / "state.json"
    path.write_text(json.dumps(StreamingDataset(remote=f"{output}/audio", **SETTINGS, **more).state_dict()))
    code, _, err = run("seen", path, "--key", "clip00000x")
    assert (code, "left out by the view, the condition or the windows of data" in err) == (1, is_said)


@pytest.mark.medium
def test_a_mixture_is_asked_with_a_path_for_each_stream(run, output, tmp_path):
    streams = [
        Stream(remote=str(output), split="train", repeat=2, name="a=b"),
        Stream(remote=str(output), split="test", choose=19, name="c"),
    ]
    state, batches = trained(StreamingDataset(streams=streams, **SETTINGS), 17, tmp_path)
    check(run, state, ("--remote", f"a=b={output}", "--remote", f"c={output}"), batches)
    check(run, state, ("--remote", output), batches)
    check(run, state, (), batches)
    content = json.loads(state.read_text())
    assert [stream.pop("remote") for stream in content["streams"]] == [f"{output}/audio"] * 2
    state.write_text(json.dumps(content))
    code, _, err = run("seen", state, "--key", "clip00001", "--remote", f"c={output}")
    assert code == 1
    assert "pass --remote 'a=b=PATH' with the data set that the run read ('a=b': split 'train' of snapshot 1" in err


@pytest.mark.medium
def test_batches_of_before_and_after_each_change_of_a_mixture_are_found(run, output, tmp_path):
    state, batches = None, []
    for weights, num_batches in (((2, 1), 3), ((1, 3), 2), ((3, 1), 2)):
        streams = [
            Stream(remote=str(output), split=split, repeat=weight, name=split)
            for split, weight in zip(("train", "test"), weights, strict=True)
        ]
        loader = StreamingDataLoader(StreamingDataset(streams=streams, change_streams=True, **SETTINGS))
        if state is not None:
            loader.load_state_dict(state)
        batches += [[key for key in batch["keys"] if key] for _, batch in zip(range(num_batches), loader, strict=False)]
        state = loader.state_dict()
    path = tmp_path / "state.json"
    path.write_text(json.dumps(state))
    for step, keys in enumerate(batches):
        code, found, _ = run("batch", path, "--step", step)
        assert (code, [row["key"] for row in found["rows"] if row["key"]]) == (0, keys)
    _, _, err = run("batch", path, "--step", 1000)
    total = int(err.split(" global batches")[0].split()[-1])
    assert [run("batch", path, "--step", step)[0] for step in (total - 1, total)] == [0, 1]


@pytest.mark.medium
def test_a_state_knows_where_its_data_were_from_any_working_folder(run, output, tmp_path, monkeypatch):
    monkeypatch.chdir(output)
    state, batches = trained(StreamingDataset(remote="audio", **SETTINGS), 12, tmp_path)
    monkeypatch.chdir(tmp_path)
    check(run, state, (), batches)
    code, found, _ = run("batch", state, "--step", 0)
    assert (code, len(found["rows"])) == (0, SETTINGS["batch_size"])


@pytest.mark.medium
def test_data_that_have_moved_are_named(run, output, tmp_path):
    moved = tmp_path / "moved"
    moved.symlink_to(output)
    state, batches = trained(StreamingDataset(remote=f"{moved}/audio", **SETTINGS), 5, tmp_path)
    moved.unlink()
    code, _, err = run("bill", state)
    assert (code, str(moved) in err) == (1, True)
    check(run, state, ("--remote", output), batches)


@pytest.mark.parametrize("more", [{"view": "few"}, {"where": "singer = 'ann'"}], ids=str)
def test_a_view_and_columns_that_have_changed_are_those_of_the_state(run, tmp_path, more):
    write_dataset(tmp_path, {"train": clips(6)})
    write_columns(tmp_path, "metadata", {"singer": ("string", singer)})
    write_view(tmp_path, "few", lambda key: int(key[-1]) % 2)
    state, batches = trained(StreamingDataset(remote=f"{tmp_path}/audio", batch_size=2, **more), 1, tmp_path)
    write_columns(tmp_path, "metadata", {"singers": ("string", singer)})
    write_view(tmp_path, "few", lambda key: 1, where="singers = 'ann'")
    code, found, _ = run("seen", state, "--key", batches[0][0])
    assert (code, found["times"]) == (0, 1)


def test_a_snapshot_that_is_gone_is_an_error_that_names_the_stream(run, tmp_path):
    write_dataset(tmp_path, {"train": clips(6)})
    write_columns(tmp_path, "metadata", {"singer": ("string", singer)})
    dataset = StreamingDataset(remote=f"{tmp_path}/audio", batch_size=2, where="singer = 'ann'")
    state, batches = trained(dataset, 1, tmp_path)
    write_columns(tmp_path, "metadata", {"singer": ("string", str)})
    (tmp_path / "columns/metadata/snapshots/00000001.json").unlink()
    code, _, err = run("seen", state, "--key", batches[0][0])
    assert code == 1
    assert re.search("the state was saved with data at .*, which is gone .*; restore it", err), err


@pytest.mark.parametrize("place", ["https://host/a/{0..1}.tar?X-Sig=1", "a/0.tar\nb/1.tar"])
def test_no_secret_and_no_list_is_in_a_state(place):
    assert Stream(remote=place).public_place is None
    assert Stream(remote="s3://bucket/a@b").public_place == "s3://bucket/a@b"


def indexed(folder):
    index_tars(str(folder), num_threads=1, columns=True)
    return folder


READ = {
    "before the columns": (lambda folder: folder, {}, False),
    "a folder": (lambda folder: folder, {}, True),
    "a glob": (lambda folder: f"{folder}/*.tar", {}, True),
    "one split": (lambda folder: folder, {"split": "train"}, True),
    "windows": (lambda folder: folder, {"window_seconds": 0.02}, True),
    "with columns": (lambda folder: folder, {"columns": ["metadata"]}, True),
    "a condition": (lambda folder: folder, {"where": "number > 2"}, True),
}


@pytest.mark.parametrize(("place", "more", "is_indexed"), READ.values(), ids=READ)
def test_a_bill_by_a_column_of_tars_that_a_run_read_with_and_without_columns(run, tmp_path, place, more, is_indexed):
    """The order of the columns is not that of the names: a tar with an early name came late."""
    folder = write_tars(tmp_path / "tars", num_tars=2, prefix="train-1", first=8)
    if is_indexed:
        indexed(folder)
    write_tars(folder, num_tars=2, prefix="train-0")
    if is_indexed:
        indexed(folder)
    state, batches = trained(StreamingDataset(remote=str(place(folder)), **SETTINGS, **more), 3, tmp_path)
    indexed(folder)
    code, found, _ = run("bill", state, "--by", "text")
    counts = Counter(f"text {int(key[1:])}" for batch in batches for key in batch)
    assert (code, {row["group"][0]: row["samples"] for row in found["rows"]}) == (0, counts)
    assert found["hours"] == pytest.approx(run("bill", state)[1]["hours"])


@pytest.mark.filterwarnings("ignore:.*are not read:UserWarning")
def test_a_bill_by_a_column_of_a_tar_that_came_after_the_columns_is_an_error(run, tmp_path):
    folder = indexed(write_tars(tmp_path / "tars", num_tars=1))
    write_tars(folder, num_tars=1, prefix="valid-", first=4)
    state, _ = trained(StreamingDataset(remote=f"{folder}/*.tar", **SETTINGS), 1, tmp_path)
    code, _, err = run("bill", state, "--by", "text")
    assert (code, "run `headrace index --columns` again" in err) == (1, True)
