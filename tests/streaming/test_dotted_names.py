"""Tars whose keys hold dots: every door refuses them by name, or reads all of their samples by `key_at="last_dot"`."""

import hashlib
import io
import json
from dataclasses import replace

import pytest

from headrace import Stream, StreamingDataLoader, StreamingDataset, webdataset_loader
from headrace.cli import main
from headrace.errors import ConfigError, FormatError, HeadraceError, StateError
from headrace.format.indexes.index_files import parse_index
from headrace.format.indexes.indexing import index_tar
from headrace.format.tars.member_names import Naming
from tests.support.streaming.corpus import clips, write_dataset
from tests.support.tars import tar_of

NAMES = {
    "numbers": (["x.01", "x.02", "y.01", "y.02"], ("flac", "json")),
    "versions of audio alone": (["track.v0", "track.v1", "track.v2"], ("flac",)),
    "numbers in titles": (["Bach - No. 1", "Bach - No. 2"], ("flac", "json")),
    "one version each": (["a.v2", "b.v2"], ("flac", "json")),
    "latents": (["x.01", "x.02"], ("pth", "json")),
}


def members(keys, fields):
    found = {}
    for key, clip in zip(keys, clips(len(keys)), strict=True):
        made = {"flac": clip.flac, "json": lambda key=key: json.dumps({"name": key}).encode(), "pth": clip.pth}
        found |= {f"{key}.{name}": made[name]() for name in fields}
    return found


@pytest.fixture(params=NAMES, ids=str)
def dotted(request, tmp_path):
    """A folder with one tar, its keys, and whether its samples have JSON."""
    keys, fields = NAMES[request.param]
    (tmp_path / "tars").mkdir()
    (tmp_path / "tars/a.tar").write_bytes(tar_of(members(keys, fields)))
    return tmp_path / "tars", keys, "json" in fields


def streamed(remote, **more):
    loader = StreamingDataLoader(StreamingDataset(remote=str(remote), batch_size=2, **more), num_threads=1)
    return [(key, data.get("name")) for batch in loader for key, data in zip(batch["keys"], batch["metadata"]) if key]  # noqa: B905


def piped(remote, **more):
    loader = webdataset_loader(str(remote), batch_size=None, **more)
    return [(sample["__key__"], sample["metadata"].get("name")) for sample in loader]


@pytest.mark.parametrize("read", [streamed, piped])
def test_keys_with_dots_are_an_error_that_names_files_and_way_out(dotted, read, tmp_path):
    folder, keys, _ = dotted
    with pytest.raises(FormatError, match=r'a\.tar: .* of one sample.*key_at="last_dot"') as fault:
        read(folder)
    assert f"{keys[0]}." in str(fault.value)


@pytest.mark.parametrize("skip", ["raise", "skip"])
@pytest.mark.parametrize("remote", ["tars", "tars/*.tar", "tars/a.tar", "tars/{a,b}.tar", "tars/sizes.json"])
def test_no_way_to_name_the_tars_and_no_setting_hides_it(tmp_path, remote, skip):
    (tmp_path / "tars").mkdir()
    (tmp_path / "tars/a.tar").write_bytes(tar_of(members(*NAMES["numbers"])))
    (tmp_path / "tars/b.tar").write_bytes(tar_of(members(["z"], ["flac"])))
    (tmp_path / "tars/sizes.json").write_text(json.dumps({"a.tar": 2}))
    with pytest.raises(HeadraceError, match=r"x\.01\.flac"):
        streamed(tmp_path / remote, on_bad_sample=skip)


@pytest.mark.parametrize("read", [streamed, piped])
def test_with_the_last_dot_every_sample_comes_with_its_own_metadata(dotted, read):
    folder, keys, has_json = dotted
    assert read(folder, key_at="last_dot") == [(key, key if has_json else None) for key in keys]


@pytest.mark.medium
def test_the_commands_refuse_and_take_them_alike(dotted, capsys):
    folder, keys, has_json = dotted
    for command in ("index", "verify"):
        assert main([command, str(folder)]) == 1
        assert "--key-at" in capsys.readouterr().out.replace("\n", "")
    assert not (folder / "a.idx").exists()
    for command in ("index", "verify"):
        assert main([command, str(folder), "--key-at", "last_dot"]) == 0
        assert f"{len(keys)} samples" in capsys.readouterr().out
    assert json.loads((folder / "sizes.json").read_text()) == {"a.tar": len(keys)}
    index = parse_index((folder / "a.idx").read_bytes(), "a.idx")
    assert (index.keys(), index.notes) == (keys, {"key_at": "last_dot"})
    expected = [(key, key if has_json else None) for key in keys]
    assert streamed(folder, key_at="last_dot") == piped(folder, key_at="last_dot") == expected
    assert main(["verify", str(folder)]) == 1
    arguments = ["simulate", str(folder), "--world-size", "1", "--batch-size", "1", "--key-at"]
    assert main([*arguments, "last_dot"]) == 0
    assert main([*arguments, "first_dot"]) == 1


@pytest.fixture
def unclear(tmp_path):
    """A tar that is sound by both rules, and says other samples by each."""
    folder = tmp_path / "tars"
    folder.mkdir()
    (folder / "a.tar").write_bytes(tar_of(members(["x.mic", "y.mic"], ["flac"])))
    return folder


def test_a_kept_index_is_never_served_to_who_asks_for_the_other_rule(unclear, tmp_path):
    cache = str(tmp_path / "cache")
    for _ in range(2):
        assert [key for key, _ in streamed(unclear, local=cache)] == ["x", "y"]
        assert [key for key, _ in streamed(unclear, local=cache, key_at="last_dot")] == ["x.mic", "y.mic"]
    assert len(list((tmp_path / "cache/indexes").iterdir())) == 2


@pytest.mark.parametrize("made_with", ["first_dot", "last_dot"])
def test_an_index_beside_the_tar_is_never_served_to_who_asks_for_the_other_rule(unclear, tmp_path, made_with, capsys):
    other = {"first_dot": "last_dot", "last_dot": "first_dot"}[made_with]
    assert main(["index", str(unclear), "--key-at", made_with]) == 0
    cache = str(tmp_path / "cache")
    assert [key for key, _ in streamed(unclear, local=cache)] == ["x", "y"]
    assert [key for key, _ in streamed(unclear, local=cache, key_at="last_dot")] == ["x.mic", "y.mic"]
    assert len(list((tmp_path / "cache/indexes").iterdir())) == 1
    assert main(["verify", str(unclear), "--key-at", made_with]) == 0
    capsys.readouterr()
    assert main(["verify", str(unclear), "--key-at", other]) == 1
    assert f"made with --key-at {made_with}" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize("way", [{}, {"sizes": True}], ids=["folder", "sizes.json"])
def test_a_state_pins_the_rule(unclear, way):
    remote = unclear
    if way:
        (unclear / "sizes.json").write_text(json.dumps({"a.tar": 2}))
        remote = unclear / "sizes.json"
    first = StreamingDataset(remote=str(remote))
    last = StreamingDataset(remote=str(remote), key_at="last_dot")
    for saved, other, rule in ((first, last, "first_dot"), (last, first, "last_dot")):
        state = json.loads(json.dumps(saved.state_dict()))
        saved.load_state_dict(state)
        with pytest.raises(StateError, match=rf"differ: .*; pass key_at='{rule}'"):
            other.load_state_dict(state)


def test_a_stream_s_own_rule_goes_before_the_data_set_s(unclear):
    streams = [Stream(str(unclear), name="a"), Stream(str(unclear), key_at="first_dot", name="b")]
    dataset = StreamingDataset(streams=streams, key_at="last_dot")
    assert [sample["__key__"] for sample in map(dataset.get_item, range(4))] == ["x.mic", "y.mic", "x", "y"]


@pytest.mark.parametrize("value", ["second_dot", None, 1])
def test_an_unknown_rule_is_rejected_by_name(unclear, value):
    for make in (StreamingDataset, lambda *, remote, **more: webdataset_loader(remote, **more)):
        with pytest.raises(ConfigError, match=rf"^key_at is {value!r}: expected one of 'first_dot', 'last_dot'"):
            make(remote=str(unclear), key_at=value)
    with pytest.raises(SystemExit, match="2"):
        main(["index", str(unclear), "--key-at", str(value)])


def test_an_output_of_ours_knows_its_keys(tmp_path):
    write_dataset(tmp_path, {"train": clips(3)})
    remote = f"{tmp_path}/audio"
    with pytest.raises(ConfigError, match=r"^key_at='last_dot' is for plain tars"):
        StreamingDataset(remote=remote, key_at="last_dot")
    with pytest.raises(ConfigError, match=r"^key_at='last_dot' is for plain tars"):
        webdataset_loader(remote, key_at="last_dot")
    assert main(["verify", str(tmp_path), "--key-at", "last_dot"]) == 1


def test_files_split_by_dots_in_names_give_an_error_with_a_remedy(tmp_path):
    (tmp_path / "a.tar").write_bytes(tar_of(members(["x.01", "y", "x.02"], ["flac"])))
    for read in (streamed, piped):
        with pytest.raises(FormatError, match=r"'x' are not neighbours; .*or, if keys hold dots, pass key_at="):
            read(tmp_path)
        assert [key for key, _ in read(tmp_path, key_at="last_dot")] == ["x.01", "y", "x.02"]


@pytest.mark.parametrize("num_workers", [0, 2])
def test_fields_with_dots_that_a_build_declares_are_read_by_every_door(tmp_path, num_workers, capsys):
    """Not the same tar without its index: then nothing says that these are fields."""
    naming = Naming(declared=frozenset(["mix.flac", "vocals.flac"]))
    stems = tar_of(members(["x.mix", "x.vocals"], ["flac"]) | {"x.json": b"{}"})
    (tmp_path / "a.tar").write_bytes(stems)
    built = index_tar(io.BytesIO(stems), "a.tar", sha256=hashlib.sha256(stems).hexdigest(), naming=naming)
    (tmp_path / "a.idx").write_bytes(replace(built, input_digest="built").to_bytes())
    assert len(list(webdataset_loader(str(tmp_path), batch_size=None, num_workers=num_workers))) == 1
    assert StreamingDataset(remote=str(tmp_path))[0]["__key__"] == "x"
    for command in ("index", "verify"):
        assert main([command, str(tmp_path)]) == 0
    (tmp_path / "a.idx").unlink()
    with pytest.raises(FormatError, match=r"x\.mix\.flac, x\.vocals\.flac"):
        StreamingDataset(remote=str(tmp_path))
