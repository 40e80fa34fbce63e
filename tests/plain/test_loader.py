import io
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import zstandard

from headrace import World, webdataset_loader
from headrace.errors import ConfigError, FormatError, IntegrityError, NotFoundError, SampleError
from headrace.locate.shard_list import locate_shards
from headrace.plain.loader import decode_sample
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.tars import tar_of

CORPUS = clips(23)
KEYS = sorted(clip.key for clip in CORPUS)


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    """An output with latents, 23 training samples in 5 shards, 6 test samples, and old shards beside new ones."""
    folder = tmp_path_factory.mktemp("output")
    write_dataset(folder, {"train": CORPUS[:18], "test": clips(6, first=200)}, latents=True)
    write_dataset(folder, {"train": CORPUS, "test": clips(6, first=200)}, latents=True)
    return folder


@pytest.fixture
def tars(tmp_path):
    """Three foreign tars of 4 samples each, without sizes.json."""
    for number in range(3):
        write_tar(tmp_path / f"train-{number:03d}.tar", members_of(clips(4, first=number * 4)))
    return tmp_path


def members_of(samples):
    return {
        f"{clip.key}.{name}": blob for clip in samples for name, blob in (("flac", clip.flac()), ("json", clip.json()))
    }


def write_tar(path, members):
    path.write_bytes(tar_of(members))


def keys(loader):
    return [sample["__key__"] for sample in loader]


def read(urls, **options):
    return sorted(keys(webdataset_loader(urls, batch_size=None, **options)))


# Finding shards


def test_every_form_of_url_finds_the_same_samples(tars, monkeypatch):
    wanted = sorted(clip.key for clip in clips(12))
    each = [str(path) for path in sorted(tars.glob("*.tar"))]
    monkeypatch.chdir(tars)
    for urls in (
        tars,
        str(tars),
        f"{tars}/",
        f"file://{tars}",
        f"{tars}/*.tar",
        f"{tars}/train-00[0-2].tar",
        f"{tars}/train-{{000..002}}.tar",
        f"{tars}/train-{{000,001,002}}.tar",
        "train-*.tar",
        each,
        [Path(path) for path in each],
        "::".join(each),
        [f"{tars}/train-{{000..001}}.tar", f"{tars}/train-002.tar"],
        [f"pipe:cat {path}" for path in each],
    ):
        assert read(urls) == wanted, urls
    (tars / "sizes.json").write_text(json.dumps({Path(path).name: 4 for path in each[:2]}))
    assert read(tars / "sizes.json") == wanted[:8]


def test_the_error_about_a_url_without_a_match_says_what_exists(tars):
    with pytest.raises(NotFoundError, match=r"valid-\*\.tar: no tars match; .* holds train-000\.tar, train-001\.tar"):
        webdataset_loader(f"{tars}/valid-*.tar")
    with pytest.raises(NotFoundError, match="is not there"):
        webdataset_loader(f"{tars}/absent/*.tar")
    with pytest.raises(NotFoundError, match=r"train-003\.tar: the shard is not there"):
        webdataset_loader(f"{tars}/train-{{000..003}}.tar")
    with pytest.raises(FileNotFoundError):
        webdataset_loader(str(tars / "absent"))
    with pytest.raises(ConfigError, match="empty"):
        webdataset_loader([])


@pytest.mark.medium
def test_an_output_is_read_at_its_newest_snapshot_without_old_shards(output):
    assert len(list((output / "audio").glob("train_*.tar"))) > 5
    for urls in (output / "audio", output, f"{output}/audio/train_*.tar", output / "audio" / "sizes.json"):
        assert read(urls, split="train") == KEYS, urls
    assert len(read(output)) == 29
    assert read(output, split="train", snapshot=1) == KEYS[:18]
    assert read(output / "latents" / "crepe", split="train") == KEYS


def test_the_error_about_a_missing_split_names_the_existing_splits(output, tars):
    with pytest.raises(ConfigError, match=r"snapshot 2: no split 'dev'; it has test, train"):
        webdataset_loader(output, split="dev")
    with pytest.raises(ConfigError, match="'dev'"):
        webdataset_loader(tars, split="dev")
    with pytest.raises(ConfigError, match="snapshot=3"):
        webdataset_loader(tars, snapshot=3)


def test_compressed_tars_are_read(tars, tmp_path):
    import gzip

    plain = (tars / "train-000.tar").read_bytes()
    (tmp_path / "gz").mkdir()
    (tmp_path / "gz" / "a.tar.gz").write_bytes(gzip.compress(plain))
    (tmp_path / "gz" / "b.tar.zst").write_bytes(zstandard.compress((tars / "train-001.tar").read_bytes()))
    assert read(tmp_path / "gz") == sorted(clip.key for clip in clips(8))


# Samples and batches


def test_audio_is_bit_exact_and_has_its_metadata(output):
    found = {sample["__key__"]: sample for sample in webdataset_loader(output, batch_size=None, split="train")}
    for clip in CORPUS:
        sample = found[clip.key]
        assert sample["audio"].dtype == torch.float32
        assert np.array_equal(sample["audio"].numpy(), clip.audio())
        assert sample["sample_rate"] == 8000
        assert sample["metadata"]["title"] == f"Clip {clip.number}"


def test_latents_keep_their_stored_dtype(output):
    loader = webdataset_loader(output / "latents" / "crepe", batch_size=None, split="train")
    found = {sample["__key__"]: sample for sample in loader}
    for clip in CORPUS:
        hidden = found[clip.key]["encoder_hidden"]
        assert np.array_equal(hidden.numpy(), clip.hidden())
        assert found[clip.key]["encoder_length"] == len(clip.hidden())


@pytest.mark.medium
def test_a_batch_is_padded_and_contains_the_lengths_of_its_rows(output):
    by_key = {clip.key: clip for clip in CORPUS}
    batches = list(webdataset_loader(output, batch_size=5, split="train", num_workers=2))
    assert sorted(key for batch in batches for key in batch["keys"]) == KEYS
    for batch in batches:
        assert batch["audio"].shape[:2] == (len(batch["keys"]), 1)
        assert batch["num_frames"].dtype == torch.int64
        assert batch["sample_rate"].tolist() == [8000] * len(batch["keys"])
        assert not batch["is_padding"].any()
        for row, key in enumerate(batch["keys"]):
            audio, length = by_key[key].audio(), int(batch["num_frames"][row])
            assert np.array_equal(batch["audio"][row, :, :length].numpy(), audio)
            assert not batch["audio"][row, :, length:].any()
            assert batch["metadata"][row]["headrace"]["num_frames"] == length


def test_other_audio_formats_and_other_fields_are_returned(tmp_path):
    import soundfile

    wav = io.BytesIO()
    soundfile.write(wav, np.full((10, 2), 0.5), 8000, format="WAV")
    write_tar(tmp_path / "a.tar", {"k.wav": wav.getvalue(), "k.cls": b"3", "k.json": b"[1, 2]"})
    (sample,) = webdataset_loader(tmp_path / "a.tar", batch_size=None)
    assert sample["audio"].shape == (2, 10)
    assert sample["cls"] == b"3"
    assert sample["metadata"] == {"json": [1, 2]}


def test_the_error_about_mixed_channels_in_a_batch_says_what_to_do(tmp_path):
    write_tar(tmp_path / "a.tar", members_of([*clips(1), *clips(1, first=5, num_channels=2)]))
    with pytest.raises(ConfigError, match=r"audio\.num_channels"):
        list(webdataset_loader(tmp_path, batch_size=2))
    assert [s["audio"].shape[0] for s in webdataset_loader(tmp_path, batch_size=None)] == [1, 2]


def crop(sample):
    return {**sample, "audio": sample["audio"][:, :100]}


def as_keys(samples):
    return [sample["__key__"] for sample in samples]


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 1])
def test_a_custom_transform_and_a_custom_collate_function_are_used(output, num_workers):
    batch = next(iter(webdataset_loader(output, batch_size=3, transform=crop, num_workers=num_workers)))
    assert batch["audio"].shape == (3, 1, 100)
    found = webdataset_loader(output, batch_size=4, collate_fn=as_keys, split="train", num_workers=num_workers)
    assert sorted(key for batch in found for key in batch) == KEYS


@pytest.mark.usefixtures("closed_by_webdataset")
def test_decode_sample_works_in_a_custom_pipeline(output):
    import webdataset as wds

    urls = [str(shard.storage.local_path(shard.name)) for shard in locate_shards(output, split="train")]
    found = list(wds.WebDataset(urls, shardshuffle=False).map(decode_sample))
    assert sorted(sample["__key__"] for sample in found) == KEYS


# Order and length


def test_without_a_shuffle_buffer_the_order_is_that_of_the_shards(output):
    loader = webdataset_loader(output, batch_size=None, split="train")
    assert keys(loader) == keys(loader)
    shards = [shard.name for shard in loader.shards]
    assert shards == sorted(shards)


@pytest.mark.medium
@pytest.mark.parametrize("num_workers", [0, 2])
def test_a_shuffle_buffer_gives_each_epoch_another_order_that_depends_on_the_seed(output, num_workers):
    def epochs(seed, count=2):
        loader = webdataset_loader(
            output, batch_size=None, split="train", shuffle_buffer=10, seed=seed, num_workers=num_workers
        )
        return [keys(loader) for _ in range(count)]

    first, second = epochs(1)
    assert sorted(first) == sorted(second) == KEYS
    assert first != second
    assert epochs(1) == [first, second]
    assert epochs(2)[0] != first


@pytest.mark.medium
def test_an_epoch_can_be_repeated(output):
    loader = webdataset_loader(output, batch_size=None, shuffle_buffer=10, num_workers=1)
    epochs = [keys(loader) for _ in range(3)]
    loader.epoch = 1
    assert keys(loader) == epochs[1]


@pytest.mark.medium
def test_an_iteration_that_ends_early_counts_as_an_epoch(output):
    loader = webdataset_loader(output, batch_size=None, shuffle_buffer=10, num_workers=2)
    next(iter(loader))
    second = keys(loader)
    again = webdataset_loader(output, batch_size=None, shuffle_buffer=10, num_workers=2)
    assert [keys(again) for _ in range(2)][1] == second


@pytest.mark.medium
def test_shards_are_shuffled_only_if_there_are_many(tmp_path):
    for number in range(120):
        write_tar(tmp_path / f"{number:03d}.tar", {f"k{number:03d}.json": b"{}"})
    in_order = [f"k{number:03d}" for number in range(120)]
    assert keys(webdataset_loader(tmp_path, batch_size=None)) == in_order
    assert keys(webdataset_loader(tmp_path, batch_size=None, shuffle_buffer=2, shuffle_shards=False))[0] in in_order[:2]
    many = keys(webdataset_loader(tmp_path, batch_size=None, shuffle_buffer=2))
    assert sum(abs(int(key[1:]) - place) > 5 for place, key in enumerate(many)) > 60
    few = keys(webdataset_loader(f"{tmp_path}/00*.tar", batch_size=None, shuffle_buffer=2))
    assert all(abs(int(key[1:]) - place) < 10 for place, key in enumerate(few))


@pytest.mark.parametrize("num_workers", [0, 2])
@pytest.mark.parametrize(("batch_size", "drop_last"), [(None, False), (1, False), (4, False), (4, True), (50, False)])
def test_the_length_is_the_number_of_batches(output, num_workers, batch_size, drop_last):
    loader = webdataset_loader(
        output, batch_size=batch_size, split="train", num_workers=num_workers, drop_last=drop_last, collate_fn=as_keys
    )
    assert len(loader) == len(list(loader))
    assert loader.num_samples == 23


def test_lengths_are_read_from_sizes_json_or_indexes_or_are_unknown(tars):
    loader = webdataset_loader(tars, batch_size=5)
    with pytest.raises(TypeError, match="headrace index"):
        len(loader)
    assert len(list(loader)) == 3
    from headrace.upkeep.tar_indexes import index_tars

    index_tars(str(tars), num_threads=1)
    assert len(webdataset_loader(tars, batch_size=5)) == 3
    (tars / "sizes.json").unlink()
    assert len(webdataset_loader(f"{tars}/train-00*.tar", batch_size=5)) == 3


def test_tqdm_shows_the_progress(output, capsys):
    from tqdm import tqdm

    bar = tqdm(webdataset_loader(output, batch_size=4, split="train"))
    assert bar.total == 6
    assert sum(1 for _ in bar) == 6


@pytest.mark.medium
def test_there_are_no_more_workers_than_shards(tars):
    loader = webdataset_loader(f"{tars}/train-00[01].tar", batch_size=None, num_workers=9, prefetch_factor=3)
    assert loader.num_workers == 2
    assert len(keys(loader)) == 8


def test_worker_arguments_without_workers_are_ignored(output):
    loader = webdataset_loader(output, num_workers=0, prefetch_factor=4, persistent_workers=True)
    assert len(list(loader)) == 29


def test_shards_are_divided_among_ranks(output):
    found = [read(output, split="train", world=World(rank, 2)) for rank in range(2)]
    assert sorted(found[0] + found[1]) == KEYS
    assert not set(found[0]) & set(found[1])
    with pytest.raises(ConfigError, match="StreamingDataset"):
        webdataset_loader(output, world=World(0, 64))


# Errors


@pytest.mark.parametrize("num_workers", [0, 2])
def test_the_error_about_an_invalid_sample_names_shard_key_and_reason(tmp_path, num_workers):
    write_tar(tmp_path / "a.tar", {**members_of(clips(2)), "broken.flac": b"fLaC nothing", "broken.json": b"{}"})
    write_tar(tmp_path / "b.tar", members_of(clips(2, first=5)))
    with pytest.raises(SampleError, match=r"a\.tar: sample 'broken'"):
        list(webdataset_loader(tmp_path, num_workers=num_workers))


@pytest.mark.medium
def test_after_an_error_workers_stop_at_once_and_the_next_epoch_can_be_read(tmp_path, monkeypatch):
    import multiprocessing

    monkeypatch.setattr(
        "torch.utils.data._utils.MP_STATUS_CHECK_INTERVAL", 600.0
    )  # the time that torch waits for a worker
    before = set(multiprocessing.active_children())
    write_tar(tmp_path / "a.tar", {"broken.flac": b"fLaC nothing"})
    write_tar(tmp_path / "b.tar", members_of(clips(2)))
    loader = webdataset_loader(tmp_path, num_workers=2)
    for _ in range(2):
        with pytest.raises(SampleError, match="broken"):
            list(loader)
        assert before.issuperset(multiprocessing.active_children())


class Explodes:
    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return (os.system, (f"touch {self.path}",))


def test_a_pth_that_would_run_code_is_an_error(tmp_path):
    file = io.BytesIO()
    torch.save({"encoder_hidden": Explodes(tmp_path / "ran"), "encoder_length": 1}, file)
    write_tar(tmp_path / "a.tar", {"k.pth": file.getvalue()})
    with pytest.raises(SampleError, match="sample 'k'"):
        list(webdataset_loader(tmp_path, batch_size=None))
    assert not (tmp_path / "ran").exists()


def test_a_shard_with_fewer_samples_than_expected_is_an_error(tars):
    names = {path.name: 4 for path in tars.glob("*.tar")}
    (tars / "sizes.json").write_text(json.dumps({**names, "train-001.tar": 5}))
    with pytest.raises(IntegrityError, match=r"train-001\.tar: holds 4 samples, sizes\.json says 5"):
        list(webdataset_loader(tars))


def test_the_error_about_a_truncated_tar_names_it(tars):
    path = tars / "train-001.tar"
    path.write_bytes(path.read_bytes()[:1500])
    with pytest.raises(FormatError, match=r"train-001\.tar: cannot be read as a WebDataset"):
        list(webdataset_loader(tars))


def test_keys_that_return_after_another_are_an_error(tmp_path):
    write_tar(tmp_path / "a.tar", {"a.json": b"{}", "b.json": b"{}", "a.txt": b""})
    with pytest.raises(FormatError, match="'a' are not neighbours"):
        list(webdataset_loader(tmp_path))


def test_a_batch_size_below_one_is_an_error():
    with pytest.raises(ConfigError, match="batch_size is 0: expected a whole number, at least 1"):
        webdataset_loader("x", batch_size=0)


def test_importing_the_module_is_cheap():
    code = "import sys, headrace; headrace.__all__; print([m for m in ('torch', 'webdataset') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"
