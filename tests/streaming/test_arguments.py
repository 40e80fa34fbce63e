"""Arguments of users: accepted as plain values, or rejected by name before anything is read."""

import io
import json

import numpy as np
import pytest
import torch

from headrace import FrameBudget, LengthBuckets, Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError
from headrace.stores.requests import StoreRequests
from headrace.streaming.distributed import local_world_size
from headrace.streaming.order.epoch_order import EpochOrder
from headrace.streaming.order.mixing import Mixture, StreamSpec
from headrace.streaming.order.spec import MAX_CANONICAL_NODES, OrderSpec
from tests.support.streaming.corpus import clips, write_dataset


def opened(folder, **more):
    return StreamingDataset(**{"remote": f"{folder}/audio", "split": "train", "batch_size": 4} | more)


def mixed(folder, *, batch_size=4, batching_method="random", **more):
    stream = Stream(f"{folder}/audio", split="train", **more)
    return StreamingDataset(streams=[stream], batch_size=batch_size, batching_method=batching_method)


@pytest.mark.parametrize(
    ("make", "settings"),
    [
        (opened, {"batch_size": 8}),
        (opened, {"shuffle": True, "shuffle_seed": 9}),
        (opened, {"shuffle": True, "num_canonical_nodes": 8}),
        (opened, {"shuffle": True, "shuffle_block_size": 20}),
        (opened, {"sampling_granularity": 3}),
        (opened, {"batching": "length_buckets", "crop_frames": 100}),
        (opened, {"batching": "length_buckets", "sample_rate": 4000}),
        (opened, {"epoch_size": 20}),
        (mixed, {"choose": 40}),
        (mixed, {"batch_size": 8, "batching_method": "per_stream"}),
    ],
)
def test_numpy_integers_read_and_save_as_plain_ones(dataset_folder, make, settings):
    own = {name: np.int64(value) if type(value) is int else value for name, value in settings.items()}
    plain, dataset = make(dataset_folder, **settings), make(dataset_folder, **own)
    assert json.dumps(dataset.state_dict()) == json.dumps(plain.state_dict())
    assert [batch["keys"] for batch in StreamingDataLoader(dataset, num_threads=1)] == [
        batch["keys"] for batch in StreamingDataLoader(plain, num_threads=1)
    ]
    file = io.BytesIO()
    torch.save(dataset.state_dict(), file)
    file.seek(0)
    assert torch.load(file, weights_only=True) == dataset.state_dict()


def test_numpy_integers_in_types_become_plain_ones():
    world = World(np.int64(1), np.int32(2))
    budget = FrameBudget(np.int64(100), np.int64(4), np.int64(64))
    values = [world.rank, world.world_size, LengthBuckets(np.uint8(3)).window_batches]
    values += [budget.frames_per_batch, budget.batch_multiple, budget.window_samples]
    assert {type(value) for value in values} == {int}


def test_single_precision_weights_mean_the_decimal_that_they_show(dataset_folder):
    assert mixed(dataset_folder, repeat=np.float32(1.1)).num_samples == mixed(dataset_folder, repeat=1.1).num_samples


def test_requests_are_repeated_for_two_minutes_by_default(server, monkeypatch, tmp_path):
    used = set()
    done = StoreRequests.done
    monkeypatch.setattr(
        StoreRequests,
        "done",
        lambda self, request, retries, *more: used.add(retries) or done(self, request, retries, *more),
    )
    opened(server.uri, local=str(tmp_path))
    (retries,) = used
    elapsed, pauses = 0.0, []
    while (pause := retries.pause(len(pauses) + 1, elapsed, draw=1.0)) is not None:
        pauses.append(pause)
        elapsed += pause
    assert elapsed == pytest.approx(120)
    assert pauses[:8] == pytest.approx([0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5, 5])
    assert retries.pause(3, 0.7, draw=0.0) == pytest.approx(0.2)  # shortened at random
    used.clear()
    opened(server.uri, local=str(tmp_path), download_retry=3)
    assert [retries.num_retries for retries in used] == [3]


WRONG = [
    *(("batch_size", value) for value in ("4", 2.5, 4.0, True, [4], 0)),
    *(("shuffle_seed", value) for value in (None, "9176", 1.5)),
    *(("num_canonical_nodes", value) for value in ("8", 2.5, 0, 10**9)),
    *(("shuffle_block_size", value) for value in ("100k", 2.5)),
    *(("sampling_granularity", value) for value in (2.5, "3", None)),
    *(("shuffle", value) for value in ("no", None)),
    *(("batching", value) for value in (LengthBuckets, FrameBudget, 4)),
    *(("crop_frames", value) for value in (1.5, "3", 0)),
    *(("crop_seconds", value) for value in ("x", float("nan"), float("inf"), 0)),
    *(("sample_rate", value) for value in ("44100", 0)),
    *(("max_bad_samples", value) for value in (-1, None)),
    *(("download_timeout", value) for value in (None, "60", float("nan"), float("inf"), 0)),
    *(("remote", value) for value in ("a\0b", "s3://a\0b/c", "")),
    *(("download_retry", value) for value in ("2", -1)),
    *(("predownload", value) for value in ("x", -1)),
    *(("world", value) for value in ((0, 2), 1)),
    *(("remote", value) for value in (3, "")),
    ("local", 3),
    ("split", 3),
    ("snapshot", "1"),
    ("keep_zip", "no"),
    *(("partition_algo", value) for value in ("nonsense", "", None, True)),
    *(("validate_hash", value) for value in ("nonsense", "sha1", "", 1, ["sha256"])),
    ("change_streams", "x"),
    ("transform", "x"),
    ("latents", 3),
]


def test_the_error_of_validate_hash_lists_all_values(dataset_folder):
    with pytest.raises(ConfigError, match=r"^validate_hash is 'md5': expected None, True, False or 'sha256'$"):
        opened(dataset_folder, validate_hash="md5")


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
def test_wrong_arguments_of_a_dataset_are_rejected_by_name(dataset_folder, name, value):
    with pytest.raises(ConfigError, match=rf"^{name} .*: expected "):
        opened(dataset_folder, **{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("proportion", value) for value in ("0.5", float("nan"), float("inf"), -1)),
        *(("repeat", value) for value in ("2", float("inf"), -1)),
        *(("choose", value) for value in (2.5, "10", -1)),
        *(("batch_size", value) for value in (2.5, 0)),
        *(("download_timeout", value) for value in ("x", 0)),
        ("download_retry", 0.5),
        ("keep_zip", "no"),
        *(("validate_hash", value) for value in ("nonsense", 1)),
        ("snapshot", "1"),
        ("split", 3),
        ("name", 3),
        ("remote", 3),
        ("latents", "x"),
    ],
    ids=str,
)
def test_wrong_arguments_of_a_stream_are_rejected_by_name(dataset_folder, name, value):
    with pytest.raises(ConfigError, match=rf"^{name} is .*: expected "):
        StreamingDataset(streams=[Stream(**{"remote": f"{dataset_folder}/audio", name: value})])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: World(0.0, 2), "rank is 0.0: expected a whole number"),
        (lambda: World(0, "2"), "world_size is '2'"),
        (lambda: LengthBuckets(window_batches=2.5), "window_batches is 2.5"),
        (lambda: FrameBudget(1.5), "frames_per_batch is 1.5"),
        (lambda: FrameBudget(None), "needs one of frames_per_batch and seconds_per_batch"),
        (Stream, r"Stream\(\) names no data set: pass remote=…, or local=…"),
    ],
)
def test_wrong_arguments_of_types_are_rejected_by_name(make, message):
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"num_workers": 1.5}, "num_workers is 1.5: expected a whole number"),
        ({"num_workers": None}, "num_workers is None"),
        ({"num_threads": "2"}, "num_threads is '2'"),
        ({"prefetch_factor": 0}, "prefetch_factor is 0"),
        ({"pin_memory": "cuda"}, "pin_memory is 'cuda'"),
        ({"collate_fn": 3}, "collate_fn is 3: expected a function"),
        ({"multiprocessing_context": "x"}, "multiprocessing_context is 'x': expected one of fork, "),
        ({"drop_last": True}, "drop_last=True .* last_batch='drop' to the StreamingDataset"),
        ({"shuffle": True}, "shuffle=True .* pass it to the StreamingDataset"),
        ({"persistent_workers": "yes"}, "persistent_workers is 'yes'"),
        ({"timeout": 3}, "timeout=3 .* leave it out"),
        ({"pin_memory_device": "cuda"}, "pin_memory_device='cuda' .* pin_memory=True"),
    ],
    ids=str,
)
def test_wrong_arguments_of_a_loader_are_rejected_by_name(dataset_folder, wrong, message):
    with pytest.raises(ConfigError, match=message):
        StreamingDataLoader(opened(dataset_folder), **wrong)


def test_a_loader_takes_the_defaults_of_torch_s(dataset_folder):
    """Scripts that pass every argument on need not know which of them mean nothing here."""
    nothing = {"shuffle": False, "drop_last": False, "persistent_workers": True, "timeout": 0, "sampler": None}
    more = {"in_order": True, "pin_memory_device": ""}
    loader = StreamingDataLoader(opened(dataset_folder), prefetch_factor=None, **nothing, **more)
    assert [len(batch["keys"]) for batch in loader] == [4] * 14


def test_a_loader_has_no_arguments_but_torch_s_and_its_own(dataset_folder):
    with pytest.raises(TypeError, match="unexpected keyword argument 'batchsize'"):
        StreamingDataLoader(opened(dataset_folder), batchsize=4)


@pytest.mark.parametrize("dataset", [[1, 2], "path"], ids=str)
def test_a_loader_reads_a_streaming_dataset_and_nothing_else(dataset):
    with pytest.raises(ConfigError, match=r"^dataset is .*: expected a StreamingDataset"):
        StreamingDataLoader(dataset)


@pytest.mark.parametrize("streams", [["path"], "path", {"a": Stream("path")}, 3, [None]], ids=str)
def test_values_that_are_not_streams_are_rejected(streams):
    with pytest.raises(ConfigError, match=r"^streams.* is .*: expected .*Stream\(remote=…\)"):
        StreamingDataset(streams=streams)


def test_one_stream_may_stand_for_a_list_of_one(dataset_folder):
    stream = Stream(f"{dataset_folder}/audio", split="train")
    alone, listed = StreamingDataset(streams=stream), StreamingDataset(streams=[stream])
    assert alone.state_dict() == listed.state_dict()


def test_a_local_folder_alone_is_read_in_place_as_if_it_were_remote(dataset_folder):
    audio = f"{dataset_folder}/audio"
    before = sorted(dataset_folder.rglob("*"))
    dataset = StreamingDataset(local=audio, split="train", batch_size=4, shuffle=True)
    assert dataset.reading.is_local
    remote = opened(dataset_folder, shuffle=True)
    assert dataset.state_dict() == remote.state_dict()
    assert [sample["__key__"] for sample in dataset] == [sample["__key__"] for sample in remote]
    streams = [StreamingDataset(streams=[Stream(**{name: audio})]) for name in ("local", "remote")]
    assert streams[0].state_dict() == streams[1].state_dict()
    assert sorted(dataset_folder.rglob("*")) == before


def test_a_dataset_without_any_folder_says_what_to_pass():
    with pytest.raises(ConfigError, match=r"pass remote=…, or streams=.*, or local=… alone"):
        StreamingDataset()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"batching": FrameBudget(10**6, batch_multiple=8)},
            "batch_multiple of 8 .*: use .* of 6 or 12, or .* 4 or 8",
        ),
        ({"epoch_size": "x"}, "epoch_size 'x'"),
        ({"epoch_size": 10, "split": "none"}, "epoch_size is 10, but the streams have no samples"),
        ({"streams": [("train", {"repeat": 2, "choose": 3})]}, "has repeat and choose"),
        ({"streams": [("train", {"proportion": 1}), ("test", {})]}, "has a proportion but stream"),
        ({"streams": [("none", {"choose": 3})]}, "should give 3 samples but has none"),
        ({"streams": [("train", {"batch_size": 2})]}, "no meaning with batching_method='random'"),
        (
            {"streams": [("train", {"batch_size": 9})], "batching_method": "per_stream"},
            "stream 'audio#train' with a batch_size of 9 samples .* by 6 ranks: use .* of 6 or 12, or .* 3 or 9",
        ),
    ],
)
def test_what_no_epoch_could_follow_is_rejected_at_once(tmp_path, settings, message):
    write_dataset(tmp_path, {"train": clips(6), "test": clips(2, first=10), "none": []})
    audio = f"{tmp_path}/audio"
    streams = [Stream(audio, split=split, name=f"audio#{split}", **more) for split, more in settings.get("streams", ())]
    what = {"streams": streams} if streams else {"remote": audio}
    with pytest.raises(ConfigError, match=message):
        StreamingDataset(**settings | what, batch_size=1, world=World(0, 6))


def test_an_epoch_of_which_nothing_fills_a_batch_is_a_warning(dataset_folder):
    dataset = opened(dataset_folder, batch_size=200, last_batch="drop")
    with pytest.warns(UserWarning, match="the epoch's 53 samples fill no global batch, and last_batch='drop'"):
        assert list(StreamingDataLoader(dataset)) == []


def test_a_state_at_the_end_of_an_epoch_is_no_reason_to_warn(dataset_folder, recwarn):
    dataset = opened(dataset_folder, last_batch="drop")
    dataset.load_state_dict(dataset.state_dict() | {"sample_in_epoch": 52})
    assert dataset.next_epoch == 1
    assert len(list(StreamingDataLoader(dataset))) == 13
    assert not recwarn.list


@pytest.mark.parametrize("number", [1.0, 1.5, "3", slice(3), [1, 2], None, np.array([1, 2])], ids=str)
def test_samples_are_found_by_whole_numbers_only(dataset_folder, number):
    dataset = opened(dataset_folder)
    with pytest.raises(TypeError, match=r"^sample .*: expected one whole number"):
        dataset[number]
    assert dataset[np.int64(3)]["__key__"] == dataset[3]["__key__"]


@pytest.mark.parametrize("value", ["relaxed", "orig"])
def test_both_ways_to_partition_are_taken_and_give_one_order(dataset_folder, value):
    assert opened(dataset_folder, partition_algo=value).state_dict() == opened(dataset_folder).state_dict()


@pytest.mark.parametrize(("value", "checks"), [(None, False), (False, False), (True, True), ("sha256", True)])
def test_digests_are_checked_if_asked_for_in_any_of_the_ways_there_are(dataset_folder, value, checks):
    alone = opened(dataset_folder, validate_hash=value)
    mixed_in = StreamingDataset(streams=[Stream(f"{dataset_folder}/audio", validate_hash=value)])
    for dataset in (alone, mixed_in):
        assert dataset.reading.readers[0].primary._config.validate_hash is checks


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda dataset: dataset.get_item(0, retry="often"), "retry"),
        (lambda dataset: dataset.get_item(0, retry=-1), "retry"),
        (lambda dataset: dataset.get_item(0, retry=None), "retry"),
        (lambda dataset: dataset.state_dict(0, from_beginning="no"), "from_beginning"),
        (lambda dataset: dataset.prepare_shard(0, blocking="no"), "blocking"),
        (lambda dataset: dataset.simulate(3), "cluster"),
    ],
)
def test_wrong_arguments_of_methods_are_rejected_by_name(dataset_folder, call, name):
    with pytest.raises(ConfigError, match=rf"^{name} is .*: expected "):
        call(opened(dataset_folder))


def test_an_epoch_of_a_stream_that_is_not_there_cannot_be_shown(dataset_folder):
    dataset = opened(dataset_folder)
    with pytest.raises(IndexError, match="stream 5: there are 1"):
        dataset.resample_streams(0, 5)
    with pytest.raises(ConfigError, match="epoch is -1"):
        dataset.resample_streams(-1)


@pytest.mark.parametrize("name", ["RANK", "WORLD_SIZE"])
def test_an_invalid_rank_in_the_environment_is_rejected_by_name(dataset_folder, monkeypatch, name):
    for variable in ("RANK", "WORLD_SIZE"):
        monkeypatch.setenv(variable, "x" if variable == name else "1")
    with pytest.raises(ConfigError, match=rf"environment variable {name} is 'x': expected a whole number.*unset it"):
        opened(dataset_folder)


def test_the_ranks_of_a_host_are_a_whole_number(monkeypatch):
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "")
    with pytest.raises(ConfigError, match="LOCAL_WORLD_SIZE is ''"):
        local_world_size()


@pytest.mark.medium
def test_as_many_canonical_nodes_as_are_allowed_give_every_sample_once():
    spec = OrderSpec(8, shuffle=True, num_canonical_nodes=MAX_CANONICAL_NODES)
    order = EpochOrder(spec, Mixture((StreamSpec("a", np.full(4, 10)),)), 0)
    assert sorted(sample for index in range(5) for sample in order.batch(index).sample_ids.tolist()) == list(range(40))
