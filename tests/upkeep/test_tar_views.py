"""`headrace view`: views of tars of others, by a condition and by how often samples come."""

import hashlib
import json
from collections import Counter
from itertools import chain

import pytest

from headrace import StreamingDataLoader, StreamingDataset, World
from headrace.cli import main
from headrace.errors import ConfigError
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from headrace.verification.view_check import NumberedView
from tests.support.foreign_tars import write_tars
from tests.support.streaming.corpus import clips, write_dataset


@pytest.fixture(scope="module")
def tars(tmp_path_factory):
    folder = write_tars(tmp_path_factory.mktemp("tars"), 6, 4)
    index_tars(str(folder), num_threads=1, columns=True)
    return folder


def drawn(remote, view, **more):
    loader = StreamingDataLoader(StreamingDataset(remote=str(remote), view=view, batch_size=4, **more))
    return Counter(key for batch in loader for key in batch["keys"] if key)


def once_more(key, share):
    return int.from_bytes(hashlib.sha256(key.encode()).digest()[:8], "big") / 2**64 < share


def test_a_view_is_read_by_name_and_made_once(tars):
    first, is_new = make_view(str(tars), "loud", "snr >= 2.5")
    assert (first.number, is_new) == (1, True)
    assert make_view(str(tars), "loud", "snr >= 2.5") == (first, False)
    assert drawn(tars, "loud") == {f"s{number:03d}": 1 for number in range(5, 24)}
    assert make_view(str(tars), "loud", "snr >= 11")[0].number == 2
    assert drawn(tars, "loud") == {"s022": 1, "s023": 1}


def test_times_takes_the_floor_and_for_its_rest_a_part_of_the_keys(tars):
    make_view(str(tars), "often", "cls = 0", "case when number = 2 then null when number = 4 then -1 else 2.3 end")
    keys = {f"s{number:03d}" for number in range(0, 24, 2)} - {"s002", "s004"}
    assert drawn(tars, "often") == {key: 2 + once_more(key, 0.3) for key in keys}


def test_counts_beyond_a_byte_are_read_and_verified(tars, tmp_path):
    view, _ = make_view(str(tars), "most", "number < 2", "if(number = 0, 300, 1)")
    assert drawn(tars, "most") == {"s000": 300, "s001": 1}
    assert (view.snapshot.num_drawn, view.snapshot.num_chosen) == (301, 2)
    assert isinstance(view, NumberedView)


@pytest.mark.parametrize("ranks", [3, 8])
def test_global_batches_are_the_same_on_any_number_of_ranks(tars, ranks):
    make_view(str(tars), "twice", None, "1 + cls")

    def batches(size):
        made = [
            StreamingDataset(
                remote=str(tars), view="twice", batch_size=24 // size, world=World(rank, size), shuffle=True
            )
            for rank in range(size)
        ]
        parts = zip(*([batch["keys"] for batch in StreamingDataLoader(one)] for one in made), strict=True)
        return [sorted(chain.from_iterable(part)) for part in parts]

    assert batches(ranks) == batches(1)


@pytest.mark.parametrize(
    ("where", "times", "message"),
    [
        ("snr >", None, "where 'snr >'"),
        (None, "nothing", "times 'nothing': no column nothing"),
        (None, "speaker", "times 'speaker': gives String"),
        (None, "65536", "sample 's000' would come 65536 times; at most 65535"),
        (None, "1 / 0", "would come inf times"),
        (None, "2 +", "times '2 \\+'"),
        (None, None, "pass --where, --times or both"),
    ],
)
def test_what_is_not_valid_is_said(tars, where, times, message):
    with pytest.raises(ConfigError, match=message):
        make_view(str(tars), "bad", where, times)


def test_the_command_prints_what_was_made(tars, capsys):
    assert main(["view", str(tars), "--name", "few", "--where", "number < 3", "--times", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "view": "few", "snapshot": 1, "is_new": True, "num_samples": 24, "num_chosen": 3, "num_drawn": 6
    }  # fmt: skip
    assert main(["view", str(tars), "--name", "a/b", "--where", "true"]) == 1
    assert "--name 'a/b'" in capsys.readouterr().err


def test_an_output_with_a_catalog_is_refused(tmp_path):
    write_dataset(tmp_path, {"train": clips(2)})
    (tmp_path / "catalog").mkdir()
    (tmp_path / "catalog/catalog.jsonl").write_text("{}")
    with pytest.raises(ConfigError, match="under `views:` in the YAML file"):
        make_view(str(tmp_path), "loud", "true")
    (tmp_path / "empty").mkdir()
    with pytest.raises(ConfigError, match="headrace index --columns"):
        make_view(str(tmp_path / "empty"), "loud", "true")
