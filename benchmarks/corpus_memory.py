"""Peak memory of scans of corpora that have their recordings inside of files: Parquet, tars, manifests of NeMo.

    python benchmarks/corpus_memory.py [--counts 10000 1000000] [--output PATH]

Each scan runs in a process of its own, through the kind's own code: it lists the corpus, reads its rows, opens and
digests each recording, and stores the catalog; a second scan finds nothing changed. The recordings are WAVs of 100
frames, 1,000 to a file; their headers are not decoded. Memory is what the peak of the process is above that of its
imports. Prints a table, and writes JSON after each scan, in which the scans of other kinds stay.
"""

import argparse
import io
import itertools
import json
import os
import platform
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import soundfile
from _process import peak_mb
from growth_catalog import _cpu_seconds

import headrace.catalog.judging.validation  # noqa: F401 - what a scan imports late must not count
from headrace.audio import AudioInfo
from headrace.catalog.scanning.scan_runtime import ScanRuntime
from headrace.catalog.scanning.scan_workers import ReadingThreads
from headrace.catalog.stored.update import update_catalog
from headrace.catalog.tables.corpus_tables import open_rows
from headrace.config.dataset import DatasetConfig
from headrace.sources.kinds import nemo, parquet, webdataset  # noqa: F401 - what a scan imports late must not count
from headrace.sources.sources import corpus_of
from headrace.stores.storage import open_storage

_TO_A_FILE, _PARTITIONS, _FRAMES, _RATE_HZ = 1000, 1000, 100, 8000
_HEAD = 44
_SCANS = ("first", "again")
_INFO = AudioInfo("WAV", "PCM_16", _FRAMES, _RATE_HZ, 1, 16)


def main() -> None:
    """Measure, print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", type=int, nargs="+", default=[10_000, 1_000_000])
    parser.add_argument("--kinds", nargs="+", choices=_WRITERS, default=list(_WRITERS))
    parser.add_argument("--scans", nargs="+", choices=_SCANS, default=_SCANS)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results/corpus_memory.json")
    parser.add_argument("--child", nargs=2, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        kind, folder = options.child
        print(json.dumps(_scanned(kind, Path(folder))))
        return
    found = json.loads(options.output.read_text()) if options.output.exists() else {}
    scans = [scan for scan in found.get("scans", []) if scan["kind"] not in options.kinds]
    for kind, count in itertools.product(options.kinds, options.counts):
        for scan in _scans(kind, count, options.scans):
            scans.append({**scan, "load": round(os.getloadavg()[0], 1)})
            hardware = {"cpus": os.cpu_count(), "machine": platform.machine()}
            options.output.write_text(json.dumps({"hardware": hardware, "scans": scans}, indent=1) + "\n")


def _scans(kind: str, count: int, wanted: Sequence[str]) -> Iterator[dict[str, object]]:
    """The first scan of a corpus, and one after it."""
    with tempfile.TemporaryDirectory(prefix="headrace-corpus-") as folder:
        _WRITERS[kind](Path(folder, "corpus"), count)
        for scan in wanted:
            command = [sys.executable, __file__, "--child", kind, folder]
            printed = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout
            found = {"kind": kind, "recordings": count, "scan": scan, **json.loads(printed.splitlines()[-1])}
            print("{kind:<12}{recordings:>10,}  {scan:<6}{cpu_seconds:>8.1f} s{growth_mb:>8.0f} MB".format(**found))
            yield found


def _scanned(kind: str, folder: Path) -> dict[str, object]:
    """CPU seconds and memory of a scan."""
    config = DatasetConfig(
        name="bench",
        source={"kind": kind, "uri": str(folder / "corpus"), "settle_seconds": 0},
        splits={"train": 1.0},
        shards={"partitions": {"train": _PARTITIONS}},
        output={"uri": str(folder / "output")},
    )
    before, used = peak_mb(), _cpu_seconds()
    corpus = corpus_of(config.source, config.source.uri)
    rows = open_rows(corpus.rows().read(), config.source)
    runtime = ScanRuntime(
        probe=lambda file, *, num_bytes: _INFO,  # noqa: ARG005
        probe_version=lambda: "1",
        workers=ReadingThreads(2),
    )
    scan, _ = update_catalog(config, corpus, rows, open_storage(config.output.uri), runtime)
    return {
        "accepted": scan.num_found - len(scan.rejected),
        "opened": scan.num_opened,
        "cpu_seconds": round(_cpu_seconds() - used, 1),
        "growth_mb": round(peak_mb() - before, 1),
    }


def _files(count: int) -> Iterator[tuple[int, list[tuple[int, bytes]]]]:
    """For each file its number, and the numbers and WAVs of its recordings."""
    blob = io.BytesIO()
    soundfile.write(blob, np.zeros(_FRAMES, np.int16), _RATE_HZ, format="WAV", subtype="PCM_16")
    head = blob.getvalue()[:_HEAD]
    for file in range(-(-count // _TO_A_FILE)):
        numbers = range(file * _TO_A_FILE, min(count, (file + 1) * _TO_A_FILE))
        noise = np.random.default_rng(file).integers(-9000, 9000, (len(numbers), _FRAMES), np.int16)
        yield file, [(number, head + row.tobytes()) for number, row in zip(numbers, noise, strict=True)]


def _write_parquet(folder: Path, count: int) -> None:
    folder.mkdir()
    for file, recordings in _files(count):
        audio = [{"bytes": content, "path": f"utterance-{number:09}.wav"} for number, content in recordings]
        rows = {"audio": audio, "text": [_text(number) for number, _ in recordings]}
        pl.DataFrame(rows).write_parquet(folder / f"train-{file:05}.parquet", row_group_size=100)


def _write_webdataset(folder: Path, count: int) -> None:
    folder.mkdir()
    for file, recordings in _files(count):
        members = {f"utterance-{number:09}.wav": content for number, content in recordings}
        texts = {f"utterance-{number:09}.txt": _text(number).encode() for number, _ in recordings}
        _write_tar(folder / f"{file:06}.tar", dict(sorted({**members, **texts}.items())))


def _write_nemo(folder: Path, count: int) -> None:
    folder.mkdir()
    with (folder / "tarred_audio_manifest.json").open("w") as manifest:
        for file, recordings in _files(count):
            _write_tar(
                folder / f"audio_{file}.tar", {f"utterance-{number:09}.wav": data for number, data in recordings}
            )
            for number, _ in recordings:
                row = {"audio_filepath": f"utterance-{number:09}.wav", "duration": _FRAMES / _RATE_HZ, "shard_id": file}
                manifest.write(json.dumps({**row, "text": _text(number)}) + "\n")


def _text(number: int) -> str:
    return f"a line of text about recording {number}"


def _write_tar(path: Path, members: dict[str, bytes]) -> None:
    with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))


_WRITERS: dict[str, Callable[[Path, int], None]] = {
    "parquet": _write_parquet,
    "webdataset": _write_webdataset,
    "nemo": _write_nemo,
}


if __name__ == "__main__":
    main()
