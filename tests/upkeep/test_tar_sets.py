"""`headrace index --columns`: columns of tars of others, beside them or in a folder of their own."""

import hashlib
import json
from itertools import chain

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, World, webdataset_loader
from headrace.cli import main
from headrace.errors import ConfigError, IntegrityError
from headrace.format.beside.column_sets import fitting_columns
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.stores.storage import LocalStorage
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from tests.support.foreign_tars import flac, members, write_tars
from tests.support.tars import tar_of


def index(tars, into=None, *, columns=True, **more):
    return index_tars(str(tars), num_threads=2, columns=columns, into=into and str(into), **more)


def digests(folder):
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.glob("*.tar")}


def samples(remote, world=None, **more):
    """Each sample that a loader gives, in order: key, and the values that are asked for."""
    loader = StreamingDataLoader(StreamingDataset(remote=remote, batch_size=2, world=world, **more))
    for batch in loader:
        for row, key in enumerate(batch["keys"]):
            if not batch["is_padding"][row]:
                yield key, {name: batch[name][row] for name in ("metadata", "snr", "cls", "number") if name in batch}


def keys(remote, **more):
    return sorted(key for key, _ in samples(remote, **more))


@pytest.fixture(params=["beside", "into"])
def indexed(request, tmp_path):
    """The place to read: tars with their columns beside them, or the folder that was named by --into."""
    tars, into = write_tars(tmp_path / "tars"), tmp_path / "columns" if request.param == "into" else None
    before = digests(tars)
    assert [one.num_samples for one in index(tars, into)] == [4, 4, 4]
    assert digests(tars) == before
    if into is not None:
        assert {path.name for path in tars.iterdir()} == before.keys()
    return into or tars


def test_columns_tensors_and_where_work_as_on_an_output(indexed):
    found = dict(samples(str(indexed), columns=["metadata"], tensors=["snr", "cls"], where="number >= 2 and cls = 1"))
    assert sorted(found) == ["s003", "s005", "s007", "s009", "s011"]
    assert found["s005"]["metadata"]["text"] == "text 5"
    assert (found["s005"]["metadata"]["speaker"], found["s005"]["metadata"]["tags"]) == ("p2", ["a"])
    assert (float(found["s005"]["snr"]), int(found["s005"]["cls"])) == (2.5, 1)


def test_where_knows_facts_and_a_split_is_the_beginning_of_a_name(indexed):
    assert keys(str(indexed), where="duration_seconds > 0.0501 and split = 'train'", split="train") == [
        f"s{number:03d}" for number in range(1, 12)
    ]
    with pytest.raises(ConfigError, match="'nothing'"):
        keys(str(indexed), where="true", split="nothing")


def test_all_samples_and_a_stream_are_read_from_the_same_place(indexed):
    assert len(keys(str(indexed))) == 12
    stream = Stream(remote=str(indexed), where="snr < 1")
    batches = StreamingDataLoader(StreamingDataset(streams=[stream], batch_size=2))
    assert sorted(key for batch in batches for key in batch["keys"] if key) == ["s000", "s001"]


def global_batches(remote, ranks, **more):
    """The keys of each global batch of 24, on this many ranks."""
    datasets = [
        StreamingDataset(remote=remote, batch_size=24 // ranks, world=World(rank, ranks), shuffle=True, **more)
        for rank in range(ranks)
    ]
    return [
        sorted(chain.from_iterable(parts))
        for parts in zip(*([b["keys"] for b in StreamingDataLoader(d)] for d in datasets), strict=True)
    ]


@pytest.mark.medium
def test_one_three_and_eight_ranks_get_the_same_global_batches(tmp_path):
    index(write_tars(tmp_path, 12, 8))
    one = global_batches(str(tmp_path), 1, where="cls = 1")
    assert [len(batch) for batch in one] == [24, 24]
    assert global_batches(str(tmp_path), 3, where="cls = 1") == one
    assert global_batches(str(tmp_path), 8, where="cls = 1") == one


def test_sizes_are_written_under_the_names_of_the_tars(indexed):
    assert json.loads((indexed / "sizes.json").read_text()) == {f"train-{n:03d}.tar": 4 for n in range(3)}


@pytest.mark.medium
def test_a_state_is_resumed_after_tars_were_added(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    first = StreamingDataset(remote=str(tars), batch_size=2, where="cls = 0")
    loader = StreamingDataLoader(first)
    before = [batch["keys"] for batch in loader]
    state = first.state_dict(2)
    write_tars(tars, 1, prefix="x-", first=50)
    index(tars)
    again = StreamingDataset(remote=str(tars), batch_size=2, where="cls = 0")
    again.load_state_dict(state)
    assert [batch["keys"] for batch in StreamingDataLoader(again)] == before[1:]


def test_added_tars_are_read_alone_and_their_new_columns_are_null_in_the_others(tmp_path, monkeypatch):
    tars, into = write_tars(tmp_path / "tars"), tmp_path / "into"
    index(tars, into)
    write_tars(tars, 1, prefix="a-", first=20, snr="loud", lang="en")
    opened, real = [], LocalStorage.open
    monkeypatch.setattr(LocalStorage, "open", lambda self, path: opened.append(path) or real(self, path))
    index(tars, into)
    assert [path for path in opened if path.endswith(".tar")] == ["a-000.tar"]
    storage = LocalStorage(into)
    assert snapshot_numbers(storage.at("tars")) == [1, 2]
    snapshot = read_snapshot(storage.at("tars")).snapshot
    columns = fitting_columns(storage.at("columns/metadata"), snapshot)
    table = read_table(storage.at("tars"), snapshot)
    rows = [columns.read(table.name(shard)).row(0) for shard in range(len(table))]
    assert [(row["key"], row["snr"], row["lang"]) for row in rows] == [
        ("s020", "loud", "en"), ("s000", "0.0", None), ("s004", "2.0", None), ("s008", "4.0", None)
    ]  # fmt: skip
    opened.clear()
    index(tars, into)
    assert not [path for path in opened if path.endswith(".tar")]
    assert snapshot_numbers(storage.at("tars")) == [1, 2]


def test_tars_that_are_gone_leave_the_snapshot_and_the_others_keep_their_places(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    (tars / "train-001.tar").unlink()
    index(tars)
    assert keys(str(tars), where="true") == [f"s{number:03d}" for number in (0, 1, 2, 3, 8, 9, 10, 11)]
    assert json.loads((tars / "sizes.json").read_text()) == {"train-000.tar": 4, "train-002.tar": 4}


def test_a_tar_that_changed_since_is_an_error_with_the_way_out(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    (tars / "train-001.tar").write_bytes(tar_of(members(4, num_frames=500)))
    with pytest.raises(IntegrityError, match=r"train-001\.tar: was written again since `headrace index`"):
        keys(str(tars), where="number > 3 and number < 8")
    index(tars)
    assert keys(str(tars), where="number > 3 and number < 8") == ["s004"]


def test_json_that_is_not_an_object_is_a_fault_and_nothing_is_committed(tmp_path):
    tars = write_tars(tmp_path / "tars")
    (tars / "bad.tar").write_bytes(tar_of({**members(30), "s031.json": b"[1]"}))
    faults = [one.fault for one in index(tars) if one.fault]
    assert len(faults) == 1
    assert "s031.json is not a JSON object" in faults[0]
    assert not (tars / "sizes.json").exists()
    assert not (tars / "tars").exists()


def test_a_part_of_the_tars_is_refused_and_new_ones_are_warned_of(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    assert keys(f"{tars}/train-*.tar", where="cls = 1", split="train") == [f"s{n:03d}" for n in range(1, 12, 2)]
    with pytest.raises(ConfigError, match=r"names 1 tars, and the columns .* are of 2 more"):
        keys(f"{tars}/train-000.tar", where="true")
    write_tars(tars, 1, prefix="x-", first=50)
    with pytest.warns(UserWarning, match=r"1 tars are not read \(x-000\.tar\)"):
        assert len(keys(str(tars), where="true")) == 12


def test_outputs_and_folders_of_other_tars_are_not_written_to(tmp_path):
    tars, into = write_tars(tmp_path / "tars"), tmp_path / "into"
    index(tars, into)
    with pytest.raises(ConfigError, match="has the columns of the tars in"):
        index(write_tars(tmp_path / "others"), into)
    with pytest.raises(ConfigError, match="with keys at first_dot"):
        index(tars, into, key_at="last_dot")
    (tmp_path / "output/catalog").mkdir(parents=True)
    (tmp_path / "output/catalog/catalog.jsonl").write_text("{}")
    with pytest.raises(ConfigError, match="is an output of Headrace"):
        index(tars, tmp_path / "output")


def test_a_set_keeps_its_columns_when_it_is_indexed_without_the_option(tmp_path):
    tars, into = write_tars(tmp_path / "tars"), tmp_path / "into"
    for folder in (None, into):
        index(tars, folder)
        index(tars, folder, columns=False)
        assert keys(str(folder or tars), where="speaker = 'p1' and number < 5") == ["s001", "s004"]


@pytest.mark.medium
def test_names_of_many_kinds_are_no_splits(tmp_path):
    letters = [first + second for first in "abcdef" for second in "abcdef"]
    for number, name in enumerate(letters):
        write_tars(tmp_path, 1, 1, prefix=f"{name}-", first=number)
    index(tmp_path)
    assert len(keys(str(tmp_path), where="split = 'all'")) == 36


def test_the_plain_loader_and_the_other_commands_read_the_tars_of_a_folder_of_indexes(tmp_path, capsys):
    tars, into = write_tars(tmp_path / "tars"), tmp_path / "into"
    index(tars, into)
    found = [key for batch in webdataset_loader(str(into), batch_size=4) for key in batch["keys"]]
    assert sorted(found) == [f"s{number:03d}" for number in range(12)]
    assert main(["inspect", str(into)]) == 0
    assert main(["verify", str(into)]) == 0
    assert main(["gc", str(into)]) == 1
    assert "needs snapshots" in capsys.readouterr().err


def test_a_run_with_a_view_of_tars_is_asked(tmp_path, capsys):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    make_view(str(tars), "twice", "number < 6", "1 + cls")
    state = tmp_path / "state.json"
    made = StreamingDataset(remote=str(tars), view="twice", batch_size=3)
    state.write_text(json.dumps(made.state_dict(9)))
    assert main(["bill", str(state), "--by", "speaker", "--remote", str(tars), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["rows"]
    assert {row["group"][0]: row["samples"] for row in rows} == {"p0": 3, "p1": 3, "p2": 3}
    assert main(["seen", str(state), "--key", "s003", "--remote", str(tars), "--json"]) == 0
    assert main(["bill", str(state), "--remote", str(tars)]) == 0


def test_keys_end_where_they_did_when_the_tars_were_indexed(tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    with pytest.raises(ConfigError, match="were indexed with 'first_dot'"):
        keys(str(tars), where="true", key_at="last_dot")


def test_the_hub_is_not_written_to():
    with pytest.raises(ConfigError, match="pass --into DIR"):
        index_tars("hf://datasets/someone/set@" + "0" * 40 + "/x-{000..001}.tar", num_threads=1)


def test_the_command_indexes_with_columns(tmp_path, capsys):
    tars = write_tars(tmp_path / "tars")
    assert main(["index", str(tars), "--columns", "--into", str(tmp_path / "into"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"num_indexed": 3, "num_samples": 12, "faults": []}
    assert keys(str(tmp_path / "into"), where="speaker = 'p1'") == ["s001", "s004", "s007", "s010"]


@pytest.mark.parametrize("damage", ["missing", "cut", "another tool's"])
def test_a_lost_index_is_written_again(damage, tmp_path):
    tars = write_tars(tmp_path / "tars")
    index(tars)
    path = tars / "train-001.idx"
    if damage == "missing":
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:100] if damage == "cut" else b"{}")
    index(tars)
    assert len(keys(str(tars), columns=["metadata"])) == 12


@pytest.mark.medium
@pytest.mark.parametrize("command", ["index", "index columns", "index columns into"])
def test_an_indexed_tar_has_no_faults_and_keeps_its_columns_when_it_is_indexed_otherwise(command, tmp_path):
    tars, into = write_tars(tmp_path / "tars"), tmp_path / "into"
    index(tars)
    index(tars, into)
    for _ in range(2):
        assert main(["verify", str(tars)]) == 0
        assert len(keys(str(tars), columns=["metadata"])) == len(keys(str(into), columns=["metadata"])) == 12
        words = {"index": [], "index columns": ["--columns"], "index columns into": ["--columns", "--into", str(into)]}
        assert main(["index", str(tars), *words[command]]) == 0
    flipped = bytearray((tars / "train-001.tar").read_bytes())
    flipped[flipped.index(b'"speaker"') + 1] ^= 1
    (tars / "train-001.tar").write_bytes(flipped)
    assert main(["verify", str(tars)]) == 1


TEXTS = {
    "txt": ({"s001.txt": b"member"}, "member"),
    "json": ({"s001.json": b'{"text": "json"}'}, "json"),
    "json and txt": ({"s001.json": b'{"text": "json"}', "s001.txt": b"member"}, "json"),
    "json and text": ({"s001.json": b'{"text": "json"}', "s001.text": b"member"}, "member"),
    "txt and text": ({"s001.text": b"member", "s001.txt": b"other"}, "member"),
}


@pytest.mark.parametrize(("files", "text"), TEXTS.values(), ids=TEXTS)
def test_the_column_text_is_what_a_sample_has_under_that_name(tmp_path, files, text):
    audio = {"s001.flac": flac(1, 400)}
    (tmp_path / "a-0.tar").write_bytes(tar_of(audio | files))
    index(tmp_path)
    (sample,) = StreamingDataset(remote=str(tmp_path), batch_size=1, where=f"text = '{text}'")
    if "s001.json" in files and "s001.text" not in files:
        assert sample["metadata"]["text"] == text


CLASSES = {"007": "7", " 5 ": "5", "-3\n": "-3", "+4": "4", "--5": "--5", "+-5": "+-5", "": "", "9" * 5000: "9" * 5000}
"""A class member → the text of its column's value."""


@pytest.mark.parametrize(("member", "value"), CLASSES.items(), ids=range(len(CLASSES)))
def test_a_class_that_is_no_whole_number_is_a_text(tmp_path, member, value):
    (tmp_path / "a-0.tar").write_bytes(tar_of({"s001.flac": flac(1, 400), "s001.cls": member.encode()}))
    index(tmp_path)
    assert keys(str(tmp_path), where=f"cast(cls as text) = '{value}'") == ["s001"]
