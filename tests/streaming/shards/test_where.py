"""`where=`: a condition is evaluated once on the columns of an output, and its samples are those of an epoch."""

import subprocess
import sys
from collections import Counter
from dataclasses import replace

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, World
from headrace.errors import ConfigError, MissingDependencyError, StateError, StorageError
from headrace.streaming.opened import agreement
from headrace.streaming.shards import where as evaluation
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.view_fixtures import write_view

TRAIN = clips(23)
TEST = clips(7, first=200)


def number(key):
    return int(key.removeprefix("clip"))


METADATA = {"lang": ("string", lambda key: ["de", "en", None][number(key) % 3])}
QUALITY = {"snr": ("float", lambda key: float(number(key)))}


@pytest.fixture(scope="module")
def output(tmp_path_factory):
    folder = tmp_path_factory.mktemp("where")
    write_dataset(folder, {"train": TRAIN, "test": TEST}, latents=True)
    write_columns(folder, "metadata", METADATA)
    write_columns(folder, "quality", QUALITY)
    return folder


def dataset(output, cache, where, **options):
    remote = str(output / "audio")
    return StreamingDataset(**{"remote": remote, "local": str(cache), "split": "train", "where": where} | options)


def keys(made):
    return Counter(key for batch in StreamingDataLoader(made) for key in batch["keys"] if key)


@pytest.mark.parametrize(
    ("where", "is_kept"),
    [
        ("snr > 10", lambda n: n > 10),
        ("lang = 'de' and quality.snr < 12", lambda n: n % 3 == 0 and n < 12),
        ("not lang = 'de'", lambda n: n % 3 == 1),
        ("split = 'test'", lambda n: False),
        ("fact.key = 'clip00003'", lambda n: n == 3),
    ],
)
def test_an_epoch_takes_the_samples_that_fulfil_the_condition(output, tmp_path, where, is_kept):
    expected = Counter(clip.key for clip in TRAIN if is_kept(number(clip.key)))
    assert keys(dataset(output, tmp_path, where, shuffle=True)) == expected


def test_the_condition_is_evaluated_once_for_a_cache_folder(output, tmp_path, monkeypatch):
    first = dataset(output, tmp_path, "snr > 10")

    def fail(*args):
        raise AssertionError(args)

    monkeypatch.setattr(evaluation.WhereCondition, "_made", fail)
    again = dataset(output, tmp_path, "snr > 10")
    assert again.size == first.size == 12
    latents = dataset(output, tmp_path, "snr > 10", remote=str(output / "latents/crepe"))
    assert keys(latents).total() == 12
    with pytest.raises(AssertionError):
        dataset(output, tmp_path, "snr > 11")


@pytest.mark.parametrize("damaged", [lambda blob: blob[:-5], lambda blob: bytes(len(blob))], ids=["short", "zeros"])
@pytest.mark.parametrize("suffix", [".json", ".totals", ".counts"])
def test_a_damaged_result_is_evaluated_again(output, tmp_path, suffix, damaged):
    dataset(output, tmp_path, "snr > 10")
    for path in tmp_path.rglob(f"views/where-*/snapshots/*{suffix}"):
        path.chmod(0o644)
        path.write_bytes(damaged(path.read_bytes()))
    assert keys(dataset(output, tmp_path, "snr > 10")).total() == 12


def test_a_cache_folder_that_cannot_be_written_is_an_error_that_says_what_to_do(output, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(StorageError, match=r"views/where-.*where='snr > 10' are listed there: make room, pass another"):
        dataset(output, tmp_path / "file/cache", "snr > 10")


def test_ranks_read_the_same_batches(output, tmp_path):
    ranks = [dataset(output, tmp_path, "snr > 4", world=World(rank, 2), shuffle=True) for rank in range(2)]
    one = list(keys(dataset(output, tmp_path, "snr > 4", batch_size=2, shuffle=True)))
    pairs = zip(*(list(keys(rank)) for rank in ranks), strict=True)
    assert [key for pair in pairs for key in pair] == one


@pytest.mark.medium
def test_a_state_continues_with_the_columns_that_it_was_saved_on(tmp_path):
    write_dataset(tmp_path, {"train": TRAIN})
    write_columns(tmp_path, "metadata", METADATA)
    write_columns(tmp_path, "quality", QUALITY)
    loader = StreamingDataLoader(dataset(tmp_path, tmp_path / "one", "snr > 4", batch_size=4, shuffle=True))
    whole = [batch["keys"] for batch in loader]
    loader = StreamingDataLoader(dataset(tmp_path, tmp_path / "one", "snr > 4", batch_size=4, shuffle=True))
    next(iter(loader))
    state = loader.state_dict()
    assert state["streams"][0]["view"] == {"definition": "where snr > 4", "columns": {"quality": 1}}
    write_columns(tmp_path, "quality", {"snr": ("float", lambda key: -1.0 if number(key) == 7 else 9.0)})
    assert dataset(tmp_path, tmp_path / "two", "snr > 4").size == 22
    resumed = StreamingDataLoader(dataset(tmp_path, tmp_path / "two", "snr > 4", batch_size=4, shuffle=True))
    resumed.load_state_dict(state)
    assert [batch["keys"] for batch in resumed] == whole[1:]


@pytest.mark.medium
def test_a_state_continues_with_its_columns_though_other_sets_have_got_the_name(tmp_path):
    write_dataset(tmp_path, {"train": TRAIN})
    write_columns(tmp_path, "quality", QUALITY)
    first = dataset(tmp_path, tmp_path / "cache", "snr > 10")
    state, expected = first.state_dict(), keys(first)
    write_columns(tmp_path, "metadata", {"snr": ("float", lambda key: 99.0)})
    resumed = dataset(tmp_path, tmp_path / "cache", "snr > 10")
    assert resumed.size == len(TRAIN)
    resumed.load_state_dict(state)
    assert keys(resumed) == expected


def test_a_name_in_two_sets_is_an_error_though_the_condition_names_one_of_them_elsewhere(tmp_path):
    write_dataset(tmp_path, {"train": TRAIN})
    for name in ("first", "second"):
        write_columns(tmp_path, name, {"snr": ("float", lambda key: 99.0), f"of_{name}": ("int", lambda key: 1)})
    with pytest.raises(ConfigError, match="several sets have a column 'snr'"):
        dataset(tmp_path, tmp_path / "cache", "snr > 10 and first.of_first = 1")


@pytest.mark.medium
def test_other_ranks_evaluate_the_condition_on_the_columns_of_rank_0(tmp_path):
    write_dataset(tmp_path, {"train": TRAIN})
    write_columns(tmp_path, "metadata", METADATA)
    write_columns(tmp_path, "quality", QUALITY)
    streams = dataset(tmp_path, tmp_path / "host0", "snr > 4")._streams
    first = agreement._shared(streams._opened[0])
    write_columns(tmp_path, "quality", {"snr": ("float", lambda key: 9.0)})  # before the other rank looks
    request = replace(streams._requests[0], cache_folder=tmp_path / "host1")
    assert agreement._open_as(request, first).primary.identity == streams._opened[0].primary.identity


def test_another_condition_is_refused_on_resume(output, tmp_path):
    state = dataset(output, tmp_path, "snr > 4").state_dict()
    with pytest.raises(StateError, match="the view has changed: define it again as: where snr > 4"):
        dataset(output, tmp_path, "snr > 5").load_state_dict(state)
    with pytest.raises(StateError, match=r"pass its view \(where snr > 4\)"):
        StreamingDataset(remote=str(output / "audio"), split="train").load_state_dict(state)


def test_another_condition_that_chooses_the_same_samples_is_refused_as_well(output, tmp_path):
    state = dataset(output, tmp_path, "snr  > 4").state_dict()
    dataset(output, tmp_path, "snr >\n4").load_state_dict(state)  # white space does not matter
    with pytest.raises(StateError, match="the view has changed"):
        dataset(output, tmp_path, "snr >= 5").load_state_dict(state)


@pytest.mark.medium
def test_the_newest_audio_whose_columns_are_built_is_read(tmp_path):
    write_dataset(tmp_path, {"train": TRAIN})
    write_columns(tmp_path, "metadata", METADATA)
    write_columns(tmp_path, "quality", QUALITY)
    write_dataset(tmp_path, {"train": clips(30)})
    write_columns(tmp_path, "metadata", METADATA)
    assert dataset(tmp_path, tmp_path / "cache", "snr >= 0").size == 23
    assert dataset(tmp_path, tmp_path / "cache", "lang is null or lang is not null").size == 30


def test_a_condition_that_no_sample_fulfils_is_an_error(output, tmp_path):
    with pytest.raises(ConfigError, match=r"the view \(where snr > 1000\) chooses none of 30 samples"):
        dataset(output, tmp_path, "snr > 1000")


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("snrr > 3", r"no column snrr; did you mean snr \(quality\)"),
        ("lang = ", "where 'lang = ': expected a column, a number, a text or a function, found 'the end'"),
        (3, "where is 3: expected a string"),
    ],
)
def test_a_condition_that_cannot_be_read_is_an_error(output, tmp_path, where, message):
    with pytest.raises(ConfigError, match=message):
        dataset(output, tmp_path, where)


def test_a_view_and_a_condition_together_are_an_error(output, tmp_path):
    with pytest.raises(ConfigError, match="view='some' and where='snr > 3' are both given"):
        dataset(output, tmp_path, "snr > 3", view="some")
    with pytest.raises(ConfigError, match="are both given"):
        Stream(remote=str(output), view="some", where="snr > 3")


def test_a_streams_own_choice_replaces_that_of_the_dataset(output, tmp_path):
    write_view(output, "few", lambda key: int(number(key) < 2))
    streams = [
        Stream(remote=str(output), split="train"),
        Stream(remote=str(output), split="train", where="snr < 3", name="b"),
        Stream(remote=str(output), split="train", view="few", name="c"),
    ]
    made = StreamingDataset(streams=streams, where="snr < 10", local=str(tmp_path))
    assert [reader.primary.shards.num_samples for reader in made.reading.readers] == [10, 3, 2]


def test_plain_tars_have_no_columns(output, tmp_path):
    with pytest.raises(ConfigError, match="where='snr > 3' needs a folder with snapshots"):
        dataset(output, tmp_path, "snr > 3", remote=str(output / "audio/train_*.tar"))


WITHOUT_POLARS = """
import sys
sys.modules["polars"] = None
from headrace import StreamingDataset
from headrace.errors import MissingDependencyError
arguments = {"remote": sys.argv[1], "local": sys.argv[2]}
assert StreamingDataset(where="snr > 10", **arguments).size == 19
try:
    StreamingDataset(where="snr > 11", **arguments)
except MissingDependencyError as error:
    print(error)
"""


@pytest.mark.slow
def test_polars_is_needed_only_to_evaluate_a_condition_and_named_where_it_is_missing(output, tmp_path):
    assert dataset(output, tmp_path, "snr > 10", split=None).size == 19
    command = [sys.executable, "-c", WITHOUT_POLARS, str(output), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert 'pip install "headrace[where]"' in done.stdout
    assert issubclass(MissingDependencyError, ImportError)
