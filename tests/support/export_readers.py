"""Readers of exports, rebuilt from the published forms where the package is not installed: name and audio bytes."""

import gzip
import io
import json
import re
import struct
import tarfile


def members(path):
    """Name and bytes of each member of a tar, in order."""
    with tarfile.open(path) as archive:
        return [(info.name, archive.extractfile(info).read()) for info in archive]


def nemo(folder):
    """Read as NeMo reads a tarred data set: shards by number, each file named in its manifest, in the tar's order."""

    def numbered(paths, pattern):
        return {int(re.fullmatch(pattern, path.name)[1]): path for path in paths}

    tars = numbered(folder.glob("audio_*.tar"), r"audio[^/]*_(\d+)[^/]*\.tar")
    manifests = numbered((folder / "sharded_manifests").glob("*"), r"manifest[^/]*_(\d+)[^/]*\.json")
    assert tars.keys() == manifests.keys()
    every = lines((folder / "tarred_audio_manifest.json").read_bytes())
    rows, found = [], []
    for number in sorted(tars):
        shard = lines(manifests[number].read_bytes())
        assert {row["shard_id"] for row in shard} == {number}
        by_name = {row["audio_filepath"]: row for row in shard}
        for name, blob in members(tars[number]):
            rows.append(by_name.pop(name))  # a member that is not in the manifest is an error
            found.append((name.rpartition(".")[0], blob))
        assert by_name == {}
    assert rows == every
    return found, rows


def lines(blob):
    return [json.loads(line) for line in blob.splitlines() if line.strip()]


def shar(folder):
    """Read as Lhotse reads Shar: cuts beside the pairs of a tar, whose names are the ids of the cuts."""
    assert {path.name.split(".")[0] for path in folder.iterdir()} == {"cuts", "recording"}  # every file is a field's
    found, cuts = [], []
    for path in sorted(folder.glob("cuts.*.jsonl.gz")):
        number = path.name.split(".")[1]
        rows = lines(gzip.decompress(path.read_bytes()))
        pairs = iter(members(folder / f"recording.{number}.tar"))
        for cut, (data, manifest) in zip(rows, zip(pairs, pairs, strict=True), strict=True):
            recording = json.loads(manifest[1])
            assert data[0].rpartition(".")[0] == manifest[0].removesuffix(".json") == cut["id"] == recording["id"]
            assert recording["sources"] == [{"type": "shar", "channels": recording["channel_ids"], "source": ""}]
            assert recording["duration"] == recording["num_samples"] / recording["sampling_rate"] == cut["duration"]
            assert set(recording) <= {
                "id", "sources", "sampling_rate", "num_samples", "duration", "channel_ids", "transforms",
            }  # fmt: skip
            cuts.append(cut)
            found.append((cut["id"], data[1]))
    return found, cuts


def energon(folder, split, view=None):
    """Read as Energon reads a prepared data set: samples by the offsets of `X.tar.idx`, through a filter index."""
    import yaml

    meta = folder / ".nv-meta"
    counts = json.loads((meta / ".info.json").read_text())["shard_counts"]
    parts = yaml.safe_load((meta / "split.yaml").read_text())["split_parts"]
    assert sorted(name for names in parts.values() for name in names) == sorted(counts)
    first, starts = 0, {}
    for name, count in counts.items():
        starts[name], first = first, first + count
    kept = None
    if view is not None:
        blob = (meta / f"filter_{view}.idx").read_bytes()
        kept = set(struct.unpack(f"<{len(blob) // 8}Q", blob))
        stated = json.loads((meta / f"filter_{view}.json").read_text())
        assert stated["version"] == 1
        assert sum(stated["filtered_shard_counts"].values()) == len(kept)
        assert list(stated["filtered_shard_counts"]) == list(counts)
    found = []
    for name in parts[split]:
        index = (folder / f"{name}.idx").read_bytes()
        offsets = struct.unpack(f"<{len(index) // 8}Q", index)
        assert len(offsets) == counts[name] + 1
        blob = (folder / name).read_bytes()
        for number in range(counts[name]):
            if kept is None or starts[name] + number in kept:
                part = blob[offsets[number] : offsets[number + 1]] + bytes(1024)
                with tarfile.open(fileobj=io.BytesIO(part)) as archive:
                    files = {info.name: archive.extractfile(info).read() for info in archive}
                (flac,) = (one for one in files if one.endswith(".flac"))
                assert flac.removesuffix(".flac") + ".json" in files
                found.append((flac.removesuffix(".flac"), files[flac]))
    return found


def dali(folder, split):
    """Read as DALI reads tars by their indexes: each file at its first byte."""
    found = []
    for path in sorted(folder.glob(f"{split}_*.tar")):
        head, *rest = path.with_suffix(".idx").read_text().splitlines()
        assert head == f"v1.2 {len(rest)}"
        blob = path.read_bytes()
        for line in rest:
            words = iter(line.split(" "))
            files = {}
            for extension, start, size, name in zip(words, words, words, words, strict=True):
                assert int(start) % 512 == 0
                assert name == f"{name.split('.')[0]}.{extension}"
                files[extension] = (name.split(".")[0], blob[int(start) : int(start) + int(size)])
            found.append(files["flac"])
    return found
