"""Runs the code in docs/migrating.md, and looks up the names in it."""

import gzip
import inspect
import json
import re
import textwrap
from pathlib import Path

import pytest
import yaml

import headrace
from headrace import Stream, StreamingDataLoader, StreamingDataset
from headrace.config.dataset import parse_config
from tests.support.corpora import build, write_sound
from tests.support.streaming.corpus import clips
from tests.support.tars import tar_of

DOCUMENT = Path("docs/migrating.md").read_text()
WEBDATASET, MOSAIC, TARS, SHAR, NEMO_TARS, WORDS, LOSS = re.findall(r"```python\n(.*?)```", DOCUMENT, re.DOTALL)


def test_the_code_for_users_of_webdataset(tmp_path, monkeypatch):
    (tmp_path / "shards").mkdir()
    for number in range(2):
        members = {}
        for clip in clips(4, first=4 * number):
            members |= {f"{clip.key}.flac": clip.flac(), f"{clip.key}.json": clip.json(), f"{clip.key}.cls": b"17"}
        (tmp_path / f"shards/train-{number:03d}.tar").write_bytes(tar_of(members))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(WEBDATASET, names)
    assert names["batch"]["label"].tolist() == [17, 17, 17, 17]
    assert "cls" not in names["batch"]


def test_the_code_for_users_of_mosaic(dataset_folder, tmp_path, monkeypatch):
    for name in ("speech", "music"):
        (tmp_path / name).symlink_to(dataset_folder)
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(MOSAIC, names)
    assert names["loader"].state_dict()["sample_in_epoch"] == 4
    assert len(names["loader"]) == 1000 // 4 - 1


def test_the_code_that_writes_samples_of_any_library_to_tars(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(TARS, names)
    (tmp_path / "clips").mkdir()
    made = clips(5)
    names["write_tars"](((clip.key, "flac", clip.flac(), {"text": clip.key}) for clip in made), "clips/train-%06d.tar")
    read = list(StreamingDataset(remote="clips", local=tmp_path / "cache"))
    assert {sample["__key__"]: sample["metadata"]["text"] for sample in read} == {c.key: c.key for c in made}
    assert all(sample["audio"].numel() for sample in read)


def test_the_code_that_joins_the_texts_of_shar(tmp_path, monkeypatch):
    """Ids with dots, a field beside the recordings, and the recording's own manifest as JSON."""
    (tmp_path / "shar").mkdir()
    ids = [f"clip.{number:02d}" for number in range(4)]
    for number in range(2):
        recordings, features = {}, {}
        cuts = b""
        for clip, key in zip(clips(2, first=2 * number), ids[2 * number : 2 * number + 2], strict=True):
            recordings |= {f"{key}.flac": clip.flac(), f"{key}.json": json.dumps({"id": key}).encode()}
            features |= {f"{key}.llc": b"1", f"{key}.json": b"{}"}
            cuts += json.dumps({"id": key, "supervisions": [{"text": "so"}, {"text": key}]}).encode() + b"\n"
        (tmp_path / f"shar/recording.{number:06d}.tar").write_bytes(tar_of(recordings))
        (tmp_path / f"shar/features.{number:06d}.tar").write_bytes(tar_of(features))
        (tmp_path / f"shar/cuts.{number:06d}.jsonl.gz").write_bytes(gzip.compress(cuts))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    with pytest.warns(UserWarning, match=r"cuts\.000000\.jsonl\.gz holds the cuts"):
        exec(SHAR, names)
    assert names["batch"]["keys"] == ids
    assert names["batch"]["text"] == [f"so {key}" for key in ids]


def test_the_code_that_joins_the_texts_of_nemo(tmp_path, monkeypatch):
    (tmp_path / "nemo").mkdir()
    made = clips(2)
    (tmp_path / "nemo/audio_0.tar").write_bytes(tar_of({f"{clip.key}.flac": clip.flac() for clip in made}))
    rows = [{"audio_filepath": f"{clip.key}.flac", "duration": 1.0, "text": clip.key, "shard_id": 0} for clip in made]
    (tmp_path / "nemo/tarred_audio_manifest.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    exec(NEMO_TARS, names)
    with pytest.warns(UserWarning, match="manifest of NeMo's tars"):
        read = list(StreamingDataset(remote="nemo", local=tmp_path / "cache"))
    assert {sample["__key__"]: names["texts"][sample["__key__"]] for sample in read} == {c.key: c.key for c in made}


def test_the_yaml_for_a_manifest_of_nemo_is_valid():
    (nemo,) = re.findall(r"```yaml\n(.*?)```", DOCUMENT, re.DOTALL)
    config = parse_config(yaml.safe_load(nemo) | {"output": {"uri": "/data/shards"}}, "nemo", Path("nemo.yaml"))
    assert config.source.samples == "rows"
    assert config.source.columns.path == "audio_filepath"


def test_the_code_for_the_words_of_moshi_finetune_makes_a_column_of_intervals(tmp_path, monkeypatch):
    root = tmp_path / "talk"
    for number in range(2):
        write_sound(root / f"data_stereo/{number}.wav", number, frames=8000, channels=2)
        words = [["hello", [0.125, 0.25], "SPEAKER_MAIN"], ["you", [0.5, 0.75], f"SPEAKER_{number}"]]
        (root / f"data_stereo/{number}.json").write_text(json.dumps({"alignments": words}))
    (root / "data.jsonl").write_text('{"path": "data_stereo/0.wav", "duration": 1.0}\n')
    monkeypatch.chdir(root)
    exec(WORDS, {})
    (asked,) = re.findall(r"In the YAML: `(.*)`, `(.*)` and `(.*)`\.\n", DOCUMENT)
    built = build(tmp_path, {"uri": str(root), **yaml.safe_load("\n".join(asked))})
    assert built.rejects == {}
    speakers = {tuple(word["speaker"] for word in one["metadata"]["alignments"]) for one in built.samples.values()}
    assert speakers == {("SPEAKER_MAIN", "SPEAKER_0"), ("SPEAKER_MAIN", "SPEAKER_1")}
    (first, *_) = built.samples.values()
    assert first["metadata"]["alignments"][1].keys() >= {"start", "end", "label"}


FILES = {
    "moshi-finetune": ["data.jsonl", "annotate.py"],
    "audiocraft": ["egs/NAME/data.jsonl.gz", "a.json"],
    "stable-audio-tools": ["custom_metadata.py", "details.json"],
    "NeMo": ["tarred_audio_manifest.json", "audio_N.tar"],
    "icefall": ["asr_datamodule.py", "data/manifests"],
    "WeNet": ["data.list", "wav.scp"],
    "ESPnet": ["dump/raw/SET/wav.scp", "utt2num_samples"],
    "Emilia": ["EN-B000000.tar", "EN_B00000.jsonl"],
    "BirdNET": ["BirdNET.selection.table.txt", "Parus major_Great Tit/"],
    "SimpleTuner": ["multidatabackend.json", "track_01.lyrics"],
}


@pytest.mark.parametrize("project", FILES)
def test_each_project_has_a_table_of_its_files_and_of_what_does_not_carry_over(project):
    (rows,) = re.findall(rf"^\| {project} \| here \|\n\|---\|---\|\n((?:\|.*\n)+)", DOCUMENT, re.MULTILINE)
    assert all(file in rows for file in FILES[project])
    assert rows.splitlines()[-1].startswith("| *does not carry over* |")


def test_every_argument_that_it_names_is_one():
    known = set()
    for face in (StreamingDataset, Stream, StreamingDataLoader, headrace.webdataset_loader):
        known |= set(inspect.signature(face).parameters)
    ours = {
        name
        for row in re.findall(r"^\| .* \| (.*) \|$", DOCUMENT, re.MULTILINE)
        for name in re.findall(r"`(\w+)=", row)
    }
    assert ours
    assert ours <= known


def test_the_readme_leads_there():
    assert "(docs/migrating.md)" in Path("README.md").read_text()


def test_the_loss_leaves_padding_out(dataset_folder):
    dataset = StreamingDataset(remote=f"{dataset_folder}/audio", batch_size=32, transform=lambda s: s | {"label": 2.0})
    *_, last = StreamingDataLoader(dataset)
    assert last["is_padding"].any()
    names = {
        "batch": last,
        "model": lambda audio: audio[:, 0, 0],
        "per_row_loss": lambda found, label: label.where(~last["is_padding"], float("inf")) + 0 * found,
    }
    exec(textwrap.dedent(LOSS), names)
    assert names["loss"] == 2.0
