"""Rebuilds datasets/demo/ from Debian's package sonic-pi-samples.

Usage:
    apt-get download sonic-pi-samples && dpkg -x sonic-pi-samples_*.deb unpacked
    python tools/make_demo_corpus.py unpacked

Copies recordings byte for byte into one folder per category and writes three tables: metadata.csv, from the package's
README, with one row per recording; brightness.csv, measured from the audio; and loops.csv, with one row per bar of the
loops. The same package gives the same files. It must not alter audio: odd channel counts and bit depths are what a demo
is for.
"""

import argparse
import csv
import re
import shutil
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import soundfile

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

DEMO = Path(__file__).resolve().parents[1] / "datasets" / "demo"
SAMPLES = Path("usr/share/sonic-pi/samples")
LICENCE = "CC0-1.0"  # what the package's README says of every file in its folder

MAX_TOTAL_BYTES = 11_500_000  # the repository carries these files: keep a clone small
MAX_LONGEST_BYTES = 600_000  # a category's longest recording is kept up to this size, so that lengths spread

BARS = 4  # of each loop in loops.csv

HEADING = re.compile(r"^#+\s+(?P<title>.+?)\s*$")
ENTRY = re.compile(r"^\*\s+`:(?P<name>\w+)`\s*-\s*(?P<url>https?://\S+)")


@dataclass(frozen=True, slots=True)
class Recording:
    """One file of the package and what its README says about it."""

    file: Path
    category: str
    source_url: str
    num_bytes: int
    duration_seconds: float

    @property
    def folder(self) -> str:
        """The name's prefix: `drum` of `drum_roll.flac`."""
        return self.file.stem.partition("_")[0]

    @property
    def path(self) -> str:
        """Path under recordings/, and the join key of metadata.csv."""
        return f"{self.folder}/{self.file.name}"


def spelling(name: str) -> str:
    """Common spelling of a name in the README and in a file name: `loop_3dprinter` is loop_3d_printer.flac."""
    return name.replace("_", "")


def read_entries(readme: str) -> dict[str, tuple[str, str]]:
    """Category (the heading above) and source URL of every name in the README, by spelling."""
    entries = {}
    category = ""
    for line in readme.splitlines():
        if heading := HEADING.match(line):
            category = heading["title"]
        elif entry := ENTRY.match(line):
            entries[spelling(entry["name"])] = (category, entry["url"])
    return entries


def read_package(samples: Path) -> list[Recording]:
    """All FLAC files of the package, by name.

    Raises:
        SystemExit: a file is not in the README, so nothing says where it comes from.
    """
    entries = read_entries((samples / "README.md").read_text(encoding="utf-8"))
    files = sorted(samples.glob("*.flac"))
    unknown = [file.name for file in files if spelling(file.stem) not in entries]
    if unknown or not files:
        message = f"{samples}: expected FLAC files, each named in README.md; not named: {unknown or 'no files at all'}"
        raise SystemExit(message)
    return [
        Recording(
            file,
            *entries[spelling(file.stem)],
            file.stat().st_size,
            soundfile.info(file).frames / soundfile.info(file).samplerate,
        )
        for file in files
    ]


def choose(recordings: "Iterable[Recording]") -> list[Recording]:
    """Each folder's longest recording, then the smallest others, as many as fit."""
    folders = defaultdict(list)
    for recording in recordings:
        folders[recording.folder].append(recording)
    longest = [max(members, key=lambda r: (r.duration_seconds, r.path)) for members in folders.values()]
    chosen = [recording for recording in longest if recording.num_bytes <= MAX_LONGEST_BYTES]
    total_bytes = sum(recording.num_bytes for recording in chosen)
    others = {r for members in folders.values() for r in members}.difference(chosen)
    for recording in sorted(others, key=lambda r: (r.num_bytes, r.path)):
        if total_bytes + recording.num_bytes > MAX_TOTAL_BYTES:
            break
        chosen.append(recording)
        total_bytes += recording.num_bytes
    return sorted(chosen, key=lambda r: r.path)


def copy_recordings(recordings: "Sequence[Recording]", demo: Path) -> None:
    """Replaces recordings/ in `demo`."""
    shutil.rmtree(demo / "recordings", ignore_errors=True)
    for recording in recordings:
        target = demo / "recordings" / recording.path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(recording.file, target)


def write_metadata(recordings: "Iterable[Recording]", demo: Path) -> None:
    """Writes metadata.csv: one row per recording."""
    rows = [
        [recording.path, recording.file.stem.replace("_", " "), recording.category, recording.source_url, LICENCE]
        for recording in recordings
    ]
    write_table(demo / "metadata.csv", ["path", "title", "category", "source_url", "licence"], rows)


def write_loops(recordings: "Iterable[Recording]", demo: Path) -> None:
    """Writes loops.csv: each recording of the folder loop/ in BARS spans of equal length, times in seconds."""
    rows = [
        [recording.file.name, f"{bar * length:.3f}", f"{(bar + 1) * length:.3f}", bar + 1]
        for recording in recordings
        if recording.folder == "loop"
        for length in [recording.duration_seconds / BARS]
        for bar in range(BARS)
    ]
    write_table(demo / "loops.csv", ["path", "start", "end", "bar"], rows)


def write_brightness(paths: "Iterable[str]", demo: Path) -> None:
    """Writes brightness.csv: the spectral centroid of each recording."""
    rows = [[path, centroid_hz(demo / "recordings" / path)] for path in paths]
    write_table(demo / "brightness.csv", ["path", "centroid_hz"], rows)


def centroid_hz(file: Path) -> int:
    """The spectral centroid of all channels, in Hz."""
    audio, rate_hz = soundfile.read(file, always_2d=True)
    power = (np.abs(np.fft.rfft(audio, axis=0)) ** 2).sum(axis=1)
    return round(float((np.fft.rfftfreq(len(audio), 1 / rate_hz) * power).sum() / power.sum()))


def write_table(file: Path, header: list[str], rows: "Iterable[Sequence[object]]") -> None:
    """Writes a CSV file."""
    with file.open("w", encoding="utf-8", newline="") as opened:
        csv.writer(opened, lineterminator="\n").writerows([header, *rows])


def main() -> None:
    """Rebuilds the corpus and says what it holds."""
    parser = argparse.ArgumentParser(description="Rebuild datasets/demo/ from the package sonic-pi-samples.")
    parser.add_argument("unpacked", type=Path, help="folder that dpkg -x unpacked the package into")
    chosen = choose(read_package(parser.parse_args().unpacked / SAMPLES))
    copy_recordings(chosen, DEMO)
    write_metadata(chosen, DEMO)
    write_loops(chosen, DEMO)
    write_brightness([recording.path for recording in chosen], DEMO)
    megabytes = sum(recording.num_bytes for recording in chosen) / 1e6
    minutes = sum(recording.duration_seconds for recording in chosen) / 60
    print(f"{len(chosen)} recordings, {minutes:.1f} minutes, {megabytes:.1f} MB in {DEMO}")


if __name__ == "__main__":
    main()
