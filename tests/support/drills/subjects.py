"""Data sets for drills, and assertions about them: readers see complete snapshots and correct samples."""

import io
import json
import os
from pathlib import Path

import soundfile

from headrace.format.beside.view_files import read_view
from headrace.format.indexes.index import files_of_shard
from headrace.format.manifests.manifests import manifest_path
from headrace.format.snapshots.snapshots import read_snapshot, read_table, snapshot_numbers
from headrace.locate.outputs import shard_folders
from headrace.stores.storage import Storage, open_storage
from tests.support.projects import Project

LEFT_OUT = ("catalog/catalog.jsonl", "catalog/parts/", "catalog/columns/")
PARTS = ("audio", "latents/mel", "columns/captions", "columns/metadata")
MEL = {"name": "mel", "encoder": {"kind": "log_mel", "num_mels": 4}, "dtype": "float32"}


def tones(folder: Path, count: int = 24, **settings: object) -> Project:
    """A project of short tones with metadata, captions, latents and a recording that is rejected; not built yet."""
    project = Project(folder)
    folder.mkdir(parents=True, exist_ok=True)
    project.write_titled_tones(count)
    (project.recordings / "broken.wav").write_bytes((project.recordings / "tone000.wav").read_bytes()[:300])
    rows = [f"tone{number:03d}.wav,{caption_of(number)}\n" for number in range(40)]
    (folder / "captions.csv").write_text("path,caption\n" + "".join(rows))
    columns = [{"name": "captions", "table": str(folder / "captions.csv")}]
    shards = {"samples_per_shard": 3, "partitions": {"train": 3, "test": 1}}
    views = {"some": {"where": "caption like '%0 Hz' or caption like '%1 Hz'"}}
    project.write_yaml(**{"shards": shards, "latents": [MEL], "columns": columns, "views": views, **settings})
    return project


def caption_of(number: int) -> str:
    """The caption of a tone."""
    return f"a tone of {200 + number} Hz"


def is_in_view(number: int) -> bool:
    """Whether the view `some` chooses a tone."""
    return number % 10 < 2


def yaml_of(project: Project) -> Path:
    """The configuration of a data set for drills."""
    return project.datasets / "tones.yaml"


def visible(folder: Path) -> dict[str, bytes]:
    """Content of the files that readers of a folder see: all except hidden files and the catalog, which has times."""
    found = {str(path.relative_to(folder)): path for path in sorted(folder.rglob("*")) if path.is_file()}
    return {
        name: path.read_bytes()
        for name, path in found.items()
        if "/." not in f"/{name}" and not name.startswith(LEFT_OUT)
    }


def objects(storage: Storage) -> dict[str, bytes]:
    """Content of the objects that readers of a store see, as in `visible`."""
    return {e.path: storage.read(e.path) for e in storage.list() if not e.path.startswith(LEFT_OUT)}


def check_readers(output: Storage, parts: tuple[str, ...] = PARTS) -> int:
    """Assert that every snapshot is complete: manifests, table, shards, indexes. Returns how many there are."""
    number = 0
    for name in parts:
        folder = output.at(name)
        there = {entry.path: entry.num_bytes for entry in folder.list()}
        for snapshot in snapshot_numbers(folder):
            content = read_snapshot(folder, snapshot).snapshot
            table = read_table(folder, content)
            for shard, size in zip(table.names(), table.num_bytes.tolist(), strict=True):
                assert there.get(shard) == size, f"snapshot {snapshot} of {name} names {shard}: {there.get(shard)}"
                assert there.keys() >= set(files_of_shard(shard)), f"snapshot {snapshot} of {name}: no index of {shard}"
            for partition, frozen in content.manifests.items():
                assert manifest_path(partition, frozen) in there
            assert {part.path for part in content.parts} <= there.keys()
            number += 1
        if "sizes.json" in there:
            json.loads(folder.read("sizes.json"))
    view = output.at("views/some")
    there = {entry.path: entry.num_bytes for entry in view.list()}
    for snapshot in snapshot_numbers(view):
        files = read_view(view, snapshot).snapshot.files
        assert all(there.get(file.path) == file.num_bytes for file in files), f"snapshot {snapshot} of the view"
    return number


def check_whole(project: Project, output: Storage | None = None) -> None:
    """Assert that the newest snapshot has every tone bit for bit, with latents and caption; no commit is pending."""
    output = output or open_storage(str(project.output))
    parts = {part.name: part for part in shard_folders(output)}
    assert set(parts) == set(PARTS)
    from headrace import StreamingDataset

    dataset = StreamingDataset(
        remote=f"{output.uri}/audio",
        latents=[f"{output.uri}/latents/mel"],
        columns=["captions"],
        batch_size=1,
        validate_hash=True,
    )
    seen = {}
    for position in range(len(dataset)):
        sample = dataset.get_item(position)
        assert len(sample["encoder_hidden"]) == sample["encoder_length"] > 0
        source = sample["metadata"]["headrace"]["source"]
        assert sample["metadata"]["caption"] == caption_of(int(source[4:7])), source
        seen[source] = sample
    recordings = {path.name for path in project.recordings.glob("*.wav")} - {"broken.wav"}
    assert set(seen) == recordings
    for name, sample in seen.items():
        wanted = soundfile.read(project.recordings / name, dtype="float32", always_2d=True)[0].T
        assert (sample["audio"].numpy() == wanted).all(), name
    chosen = StreamingDataset(remote=f"{output.uri}/audio", view="some", batch_size=1)
    sources = [chosen.get_item(number)["metadata"]["headrace"]["source"] for number in range(chosen.size)]
    assert sorted(sources) == sorted(name for name in recordings if is_in_view(int(name[4:7])))
    for part in parts.values():
        left = [e.path for e in part.storage.list() if e.path.endswith(".proposed") or "condemned/" in e.path]
        assert left == [], left


def flac_pcm(blob: bytes):
    """int16 (frames, channels)."""
    return soundfile.read(io.BytesIO(blob), dtype="int16", always_2d=True)[0]


_STATES = {"one": range(24), "two": range(2, 26), "three": [*range(5), *range(8, 30)]}


def change(project: Project, state: str) -> None:
    """Give the project the recordings of a state. Each state changes one of the recordings that others have, too."""
    for path in project.recordings.glob("tone*.wav"):
        path.unlink()
    for number in _STATES[state]:
        path = project.write_tone(f"tone{number:03d}", hz=200 + number + 40 * (number == 4) * len(state))
        os.utime(path, (1e9, 1e9 + len(state) * (number == 4)))
