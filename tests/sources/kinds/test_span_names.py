"""Columns of the user that are called as a span or a channel: metadata in every kind, unless the kind says so."""

import json

import polars as pl
import pytest

from tests.sources.kinds.test_webdataset import write_tar
from tests.support.corpora import RATE_HZ, build, sound, write_sound
from tests.support.tfrecords import example, write_records

OWN = {"start": 0.01, "end": 0.02, "duration": 0.015, "offset": 0.01, "channel": "phone"}
FRAMES = 420  # of sound 2
LESS = round(0.03 * RATE_HZ)


def kaldi(folder, _told):
    path = sound(folder / "corpus", 2)
    (folder / "corpus/wav.scp").write_text(f"u {path.name}\n")


def kaldi_segments(folder, _told):
    kaldi(folder, {})
    (folder / "corpus/segments").write_text("u u 0 0.03\n")


def lhotse(folder, told):
    path = sound(folder / "corpus", 2)
    recording = {"id": "r", "sampling_rate": RATE_HZ, "num_samples": FRAMES, "duration": FRAMES / RATE_HZ}
    recording |= {"sources": [{"type": "file", "channels": [0], "source": str(path)}]}
    supervision = {"id": "u", "recording_id": "r", "start": 0, "duration": 0.03, "channel": 0, "custom": told}
    (folder / "corpus/recordings.jsonl").write_text(json.dumps(recording))
    (folder / "corpus/supervisions.jsonl").write_text(json.dumps(supervision))


def nemo(folder, told):
    path = sound(folder / "corpus", 2)
    own = {"duration": 0.03, **{name: value for name, value in told.items() if name not in {"offset", "duration"}}}
    (folder / "corpus/m.json").write_text(json.dumps({"audio_filepath": path.name, "id": "u", **own}))


def parquet(folder, told):
    path = sound(folder / "made", 2)
    (folder / "corpus").mkdir()
    row = {"audio": {"bytes": path.read_bytes(), "path": "u.wav"}, "id": "u", **told}
    pl.DataFrame([row]).write_parquet(folder / "corpus/a.parquet")


def tfrecord(folder, told):
    values = {name: value.encode() if isinstance(value, str) else value for name, value in told.items()}
    content = {"audio": sound(folder / "made", 2).read_bytes(), "id": b"u", **values}
    write_records(folder / "corpus/a.tfrecord", [example({name: [value] for name, value in content.items()})])


def webdataset(folder, told):
    members = {"u.wav": sound(folder / "made", 2).read_bytes(), "u.json": json.dumps(told).encode()}
    write_tar(folder / "corpus/a.tar", members)


def headrace(folder, told):
    """Another output: the JSON of its samples has these names."""
    sound(folder / "first/plain", 2)
    (folder / "first/rows.jsonl").write_text(json.dumps({"path": "utt-2.wav", "id": "u", **told}))
    columns = {"key": "id", **dict.fromkeys(("start", "end", "duration"))}
    table = {"samples": "rows", "metadata": str(folder / "first/rows.jsonl"), "columns": columns}
    build(folder / "first", {"uri": str(folder / "first/plain"), **table})
    (folder / "first/output").rename(folder / "corpus")


KINDS = {
    "headrace": (headrace, FRAMES),
    "kaldi": (kaldi, FRAMES),
    "kaldi with segments": (kaldi_segments, LESS),
    "lhotse": (lhotse, LESS),
    "nemo": (nemo, LESS),
    "parquet": (parquet, FRAMES),
    "tfrecord": (tfrecord, FRAMES),
    "webdataset": (webdataset, FRAMES),
}
"""Kind → what writes a corpus whose row has some values, and the frames of its only sample."""


def source_of(folder, kind, **more):
    uri = {"nemo": "corpus/m.json"}.get(kind, "corpus")
    return {"kind": kind.partition(" ")[0], "uri": str(folder / uri), **more}


def the_sample(built):
    assert built.rejects == {}
    (sample,) = built.samples.values()
    return sample


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [["start"], ["end"], ["duration"], ["offset"], ["channel"], sorted(OWN)], ids=str)
def test_names_of_a_span_in_the_rows_of_a_kind_cut_nothing(tmp_path, kind, names):
    write, num_frames = KINDS[kind]
    told = {name: OWN[name] for name in names}
    write(tmp_path, told)
    sample = the_sample(build(tmp_path, source_of(tmp_path, kind)))
    assert sample["audio"].shape[1] == num_frames
    if kind in {"headrace", "parquet", "webdataset"}:
        assert {name: sample["metadata"][name] for name in names} == told


@pytest.mark.medium
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", sorted(OWN))
def test_names_of_a_span_in_a_joined_table_cut_nothing(tmp_path, kind, name):
    write, num_frames = KINDS[kind]
    write(tmp_path, {})
    key = "id"
    rows = {key: "u", name: OWN[name]}
    (tmp_path / "more.jsonl").write_text(json.dumps(rows))
    source = source_of(tmp_path, kind, metadata=str(tmp_path / "more.jsonl"), columns={"key": key})
    taken = {"kaldi with segments": {"start", "end"}, "lhotse": {"start", "duration"}, "nemo": {"duration"}}
    if name in taken.get(kind, ()):
        with pytest.raises(Exception, match="is in the rows of the source, too"):
            build(tmp_path, source)
        return
    sample = the_sample(build(tmp_path, source))
    assert sample["audio"].shape[1] == num_frames
    assert sample["metadata"][name] == OWN[name]


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["headrace", "parquet", "tfrecord", "webdataset"])
def test_a_span_that_the_yaml_names_cuts(tmp_path, kind):
    KINDS[kind][0](tmp_path, {"start": 0.01, "duration": 0.015})
    columns = {"start": "start", "duration": "duration"}
    sample = the_sample(build(tmp_path, source_of(tmp_path, kind, columns=columns)))
    assert sample["audio"].shape[1] == round(0.015 * RATE_HZ)


@pytest.mark.medium
def test_another_end_takes_the_place_of_that_of_the_kind(tmp_path):
    write_sound(tmp_path / "a.wav", 1)
    row = {"audio_filepath": "a.wav", "duration": 0.03, "until": 0.02}
    (tmp_path / "m.json").write_text(json.dumps(row))
    source = {"kind": "nemo", "uri": str(tmp_path / "m.json"), "columns": {"end": "until"}}
    assert the_sample(build(tmp_path, source))["audio"].shape[1] == round(0.02 * RATE_HZ)


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["parquet", "webdataset"])
def test_rows_of_intervals_are_cut_at_their_own_times(tmp_path, kind):
    turns = [{"start": 0.0, "end": 0.02}, {"start": 0.02, "end": 0.05}]
    KINDS[kind][0](tmp_path, {"turns": turns, "start": 7.5, "duration": 0.5})
    built = build(tmp_path, source_of(tmp_path, kind, rows="turns"))
    assert built.rejects == {}
    assert sorted(sample["audio"].shape[1] for sample in built.samples.values()) == [160, 240]


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["headrace", "kaldi", "parquet", "tfrecord", "webdataset"])
@pytest.mark.parametrize("names", [[], ["a", "b"]], ids=["keys of spans", "own keys"])
def test_intervals_of_joined_metadata_are_rows_whose_keys_differ(tmp_path, kind, names):
    """`columns.key` joins the table; it is the key of the samples only if the intervals have it."""
    KINDS[kind][0](tmp_path, {})
    turns = [{"start": 0.0, "end": 0.02}, {"start": 0.02, "end": 0.05}]
    turns = [turn | {"id": name} for turn, name in zip(turns, names, strict=True)] if names else turns
    rows = [{"id": "u", "turns": turns}, {"id": "v", "turns": turns}, {"id": "w", "turns": []}]
    (tmp_path / "m.jsonl").write_text("\n".join(map(json.dumps, rows)))
    built = build(
        tmp_path, source_of(tmp_path, kind, rows="turns", metadata=str(tmp_path / "m.jsonl"), columns={"key": "id"})
    )
    of = f"of {tmp_path / 'm.jsonl'} has the key"
    assert built.reasons == [f"line {n} {of} {key!r}, which no row of the source has" for n, key in enumerate("vw", 2)]
    assert sorted(sample["audio"].shape[1] for sample in built.samples.values()) == [160, 240]
    assert {sample["metadata"]["id"] for sample in built.samples.values()} == set(names or "u")
    assert set(names) <= built.samples.keys()
