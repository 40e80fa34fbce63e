"""The corpora of `uses.py`: synthetic sounds as files, and in indexed tars of others."""

import io
import json
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import soundfile as sf

from benchmarks.peers.clips import once
from headrace.upkeep.tar_indexes import index_tars
from headrace.upkeep.tar_views import make_view
from tests.support.sounds import file_of, music

RATE_HZ = 44_100
NUM_SOUNDS = 40
RECORDING_SECONDS = 300
NUM_RECORDINGS = 6
VIEWS = {"one": 0.01, "half": 0.5}
WORDS = [f"{a}{b}" for a in ("ba", "ke", "lo", "mi", "tu", "sar") for b in ("n", "rel", "sing", "da", "pom", "vi")]

Members = dict[str, bytes]
"""Extension → bytes of one sample."""


def make(folder: Path) -> None:
    """All corpora, each in a folder of its own: `NAME/files/KEY.EXT`, `NAME/tars/*.tar` and `NAME/table.json`."""
    clips = [np.round(music(5 * RATE_HZ, seed=seed) * 32_767).astype(np.int16) for seed in range(NUM_SOUNDS)]
    flac = [file_of(clip, "FLAC") for clip in clips]
    short = [file_of(clip[:RATE_HZ], "FLAC") for clip in clips]
    mixes = [file_of(music(2 * RATE_HZ, 2, seed=seed), "FLAC") for seed in range(8)]
    vocals = [file_of(clip[: 2 * RATE_HZ], "FLAC") for clip in clips]
    mp3 = [file_of(clip, "MP3", "MPEG_LAYER_III") for clip in clips]
    opus = [file_of(clip, "OGG", "OPUS", 48_000) for clip in clips[:10]]
    random = np.random.default_rng(0)
    write(folder / "flac", {f"c{n:05d}": {"flac": flac[n % NUM_SOUNDS]} for n in range(600)}, 50)
    write(folder / "mp3", {f"c{n:05d}": {"mp3": mp3[n % NUM_SOUNDS]} for n in range(400)}, 50)
    write(folder / "opus", {f"c{n:05d}": {"opus": opus[n % 10]} for n in range(100)}, 25)
    fields = {f"s{n:05d}": {"mix.flac": mixes[n % 8], "vocals.flac": vocals[n % NUM_SOUNDS]} for n in range(480)}
    write(folder / "fields", fields, 60)
    captioned = {
        f"c{n:05d}": {"flac": short[n % NUM_SOUNDS], "json": json.dumps(caption(random)).encode()} for n in range(6000)
    }
    write(folder / "short", captioned, 150, columns=True)
    for name, share in VIEWS.items():
        make_view(str(folder / "short/tars"), name, f"score < {share}")
    write(folder / "long-flac", {f"r{n}": {"flac": recording(n, "FLAC")} for n in range(NUM_RECORDINGS)}, 1)
    write(folder / "long-mp3", {f"r{n}": {"mp3": recording(n, "MP3")} for n in range(NUM_RECORDINGS)}, 1)
    write(folder / "spans", dict(cut(folder / "long-flac/files", random)), 200)


def caption(random: np.random.Generator) -> dict[str, object]:
    """Metadata of a clip."""
    return {"caption": " ".join(random.choice(WORDS, random.integers(10, 40))), "score": random.random()}


def recording(seed: int, container: str) -> bytes:
    """A recording of minutes."""
    return file_of(music(RECORDING_SECONDS * RATE_HZ, seed=seed), container, sf.default_subtype(container))


def cut(folder: Path, random: np.random.Generator) -> Iterator[tuple[str, Members]]:
    """1,200 spans of 0.5 to 3 s of the recordings, as a build stores them, with the places as JSON."""
    paths = sorted(folder.iterdir())
    for number in range(1200):
        path, count = paths[number % len(paths)], int(random.uniform(0.5, 3) * RATE_HZ)
        start = int(random.integers(0, RECORDING_SECONDS * RATE_HZ - count))
        with sf.SoundFile(path) as file:
            file.seek(start)
            flac = file_of(file.read(count, dtype="int16"), "FLAC")
        place = {"file": path.name, "start": start, "count": count}
        yield f"u{number:05d}", {"flac": flac, "json": json.dumps(place).encode()}


def write(folder: Path, samples: Mapping[str, Members], per_tar: int, *, columns: bool = False) -> None:
    """Files and tars of the same samples, and their JSON in one table; the tars are indexed by `headrace index`."""
    for part in ("files", "tars"):
        (folder / part).mkdir(parents=True)
    keys = list(samples)
    table = {key: json.loads(members.get("json", "{}")) for key, members in samples.items()}
    (folder / "table.json").write_text(json.dumps(table))
    for number, first in enumerate(range(0, len(keys), per_tar)):
        with tarfile.open(folder / f"tars/train-{number:03d}.tar", "w", format=tarfile.USTAR_FORMAT) as tar:
            for key in keys[first : first + per_tar]:
                for extension, blob in samples[key].items():
                    (folder / f"files/{key}.{extension}").write_bytes(blob)
                    member = tarfile.TarInfo(f"{key}.{extension}")
                    member.size = len(blob)
                    tar.addfile(member, io.BytesIO(blob))
    index_tars(str(folder / "tars"), columns=columns, audio_fields=("mix", "vocals") if folder.name == "fields" else ())


def corpora(folder: Path) -> Path:
    """The folder of all corpora, made the first time."""
    once(folder, make)
    return folder
