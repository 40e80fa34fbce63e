"""A cold and a warm epoch of FLAC from one slow, distant store: Headrace, webdataset, wids, LitData, MosaicML, LanceDB.

    python benchmarks/race.py [--clips 900] [--rounds 3] [--peers-python PEERS/*/bin/python]

The corpus of `read.py`, in each loader's own form, is in a bucket of the S3 server that `AWS_ENDPOINT_URL` names (with
`AWS_ACCESS_KEY_ID` and so on), else of a moto server, which is slower than any real store. Every loader reads it
through the proxy of `store.py`, which adds `--latency-ms` to each request, lets all connections together pass no more
than `--mib-per-second`, and counts the bytes that come back. Each is used as its documents say, at its best
(`_race_readers.py`): a cache folder where it has one, two worker processes (Headrace and LanceDB: threads), our FLAC
decoder. webdataset and wids read by `curl`, the others by S3.

*Cold* is an epoch with an empty cache folder, *warm* the next one, in a new process. All loaders in turn, `--rounds`
times. The store and the proxy run on the same cores. Reported: samples/s, seconds to the first batch, bytes moved in
relation to those of the data in the loader's form, CPU seconds. The limit is all shards, eight at a time.

Loaders whose package no interpreter has are left out, by name; `peers/__init__.py` says how to make the environments.
MosaicML's needs boto3, too: `PEERS/mosaic/bin/pip install boto3`. Prints a table and writes JSON.
"""

import argparse
import json
import multiprocessing
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import boto3

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))  # `benchmarks` and `tests` from the checkout

from benchmarks._race_readers import KEYS, SYSTEMS, Place  # noqa: E402
from benchmarks.peers.systems import SYSTEMS as PEERS  # noqa: E402
from benchmarks.store import fetch_all, moto, proxy, upload  # noqa: E402

BUCKET = "headrace-race"
OWN_FORM = ("litdata", "mosaic", "lance")
LONGEST_SECONDS = 300
PREPARE = (
    "import importlib, sys, pathlib; from benchmarks.peers.clips import Run; name, folder = sys.argv[1:];"
    "importlib.import_module(f'benchmarks.peers.{name}').prepare(Run(name, pathlib.Path(folder), 'audio', 2))"
)


@dataclass(frozen=True, slots=True)
class Reading:
    """One epoch of one loader."""

    system: str
    epoch: str
    num_samples: int
    seconds: float
    first_seconds: float
    cpu_seconds: float
    num_bytes_moved: int
    num_bytes_of_data: int


def python_of(system: str, pythons: list[str]) -> str | None:
    """The first interpreter that has a loader's package."""
    package = next(one.package for one in PEERS if one.module == ("ours" if system == "headrace" else system))
    program = "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)"
    words = ["-I", "-c", program, package]
    return next((one for one in pythons if not subprocess.run([one, *words], check=False).returncode), None)


def run(python: str, words: list[str]) -> str:
    """Output of a program in a loader's environment."""
    quiet = {"OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [python, *words],
        capture_output=True,
        text=True,
        env=os.environ | quiet,
        cwd=ROOT,
        timeout=LONGEST_SECONDS,
        check=False,
    )
    if done.returncode:
        sys.exit(f"{words[:3]}: {done.stderr[-3000:]}")
    return done.stdout


@dataclass(frozen=True, slots=True)
class Race:
    """Loaders, their interpreters, the corpus and the way to it.

    Attributes:
        pythons: loader → interpreter.
        corpus: folder of `read.py`.
        far: URL of the proxy.
        moved: counter of the bytes that the proxy has passed.
        cache: folder for a loader's cache.
    """

    pythons: dict[str, str]
    corpus: Path
    far: str
    moved: "multiprocessing.sharedctypes.Synchronized[int]"
    cache: Path

    def folder(self, system: str) -> Path:
        """The corpus in a loader's form."""
        return self.corpus / (f"{system}-audio-bytes" if system in OWN_FORM else "audio")

    def uri(self, system: str) -> str:
        """URL of the corpus in the bucket, in a loader's form."""
        return f"s3://{BUCKET}/{self.corpus.name}/{self.folder(system).name}"

    def fill(self) -> None:
        """Convert the corpus and put it into the bucket, which everybody may read."""
        client = boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"], region_name="us-east-1")
        client.create_bucket(Bucket=BUCKET)
        rule = {"Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/*"}
        client.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [rule]}))
        for system, python in self.pythons.items():
            if system in OWN_FORM:
                run(python, ["-c", PREPARE, system, str(self.corpus)])
            upload(self.folder(system), self.uri(system))

    def limit(self) -> Reading:
        """All shards through the proxy, and nothing decoded."""
        before, os.environ["AWS_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"], self.far
        found = fetch_all(self.uri("headrace"), json.loads((self.corpus / "audio/sizes.json").read_text()))
        os.environ["AWS_ENDPOINT_URL"] = before
        size, counts = found.num_bytes_fetched, (found.num_samples, found.seconds, found.first_seconds)
        return Reading("limit", "cold", *counts, 0.0, size, size)

    def reading(self, system: str, epoch: str) -> Reading:
        """One epoch in a fresh process."""
        if epoch == "cold":
            shutil.rmtree(self.cache, ignore_errors=True)
            self.cache.mkdir()
        shards = json.loads((self.corpus / "audio/sizes.json").read_text())
        place = Place(self.far, self.uri(system), str(self.cache), shards)
        before, os.environ["AWS_ENDPOINT_URL"] = os.environ["AWS_ENDPOINT_URL"], self.far
        moved = self.moved.value
        words = ["-m", "benchmarks._race_readers", system, json.dumps(asdict(place))]
        found = json.loads(run(self.pythons[system], words).splitlines()[-1])
        os.environ["AWS_ENDPOINT_URL"] = before
        size = sum(path.stat().st_size for path in self.folder(system).rglob("*") if path.is_file())
        return Reading(system, epoch, **found, num_bytes_moved=self.moved.value - moved, num_bytes_of_data=size)

    def rounds(self, number: int) -> Iterator[Reading]:
        """All loaders in turn, cold and then warm."""
        for _ in range(number):
            yield self.limit()
            for system in self.pythons:
                for epoch in ("cold", "warm"):
                    found = self.reading(system, epoch)
                    speed = f"{found.num_samples / found.seconds:.0f} samples/s"
                    print(f"{system}, {epoch}: {speed}", file=sys.stderr, flush=True)
                    yield found


@contextmanager
def server() -> Iterator[None]:
    """The S3 server that the environment names, or one of our own, named there."""
    for name in KEYS:
        os.environ.setdefault(name, "test")
    os.environ.setdefault("AWS_REGION", "us-east-1")
    os.environ.setdefault("AWS_DEFAULT_REGION", "us-east-1")
    if os.environ.get("AWS_ENDPOINT_URL"):
        yield
        return
    with moto() as own:
        os.environ["AWS_ENDPOINT_URL"] = own
        yield


def show(readings: list[Reading]) -> None:
    """Print medians, and ranges of the speed."""
    print("| loader | epoch | samples/s | range | first batch, s | bytes moved, of the data | CPU s |")
    print("|---|---|---|---|---|---|---|")
    for key in dict.fromkeys((one.system, one.epoch) for one in readings):
        found = [one for one in readings if (one.system, one.epoch) == key]
        rates = [one.num_samples / one.seconds for one in found]
        first, cpu = (
            statistics.median(getattr(one, name) for one in found) for name in ("first_seconds", "cpu_seconds")
        )
        moved = statistics.median(one.num_bytes_moved / one.num_bytes_of_data for one in found)
        cells = (*key, f"{statistics.median(rates):.0f}")
        more = (f"{min(rates):.0f}-{max(rates):.0f}", f"{first:.2f}", f"{moved:.3f}", f"{cpu:.1f}")
        print(f"| {' | '.join(cells + more)} |")


def main() -> None:
    """Make the corpus, read everything in turn, print and write."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clips", type=int, default=900)
    parser.add_argument("--per-shard", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--mib-per-second", type=float, default=50.0)
    parser.add_argument("--latency-ms", type=float, default=30.0)
    parser.add_argument("--peers-python", nargs="*", default=[], help="interpreters of the peers' environments")
    parser.add_argument("--systems", nargs="*", choices=list(SYSTEMS), default=list(SYSTEMS))
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "headrace-bench-read")
    parser.add_argument("--json", type=Path, default=ROOT / "benchmarks/results/race.json")
    options = parser.parse_args()
    corpus = options.folder / f"{options.clips}-{options.per_shard}"
    if not (corpus / "latents-npy").exists():
        from benchmarks.peers.corpus import make  # noqa: PLC0415 - torch, and only the first time

        make(corpus, options.clips, options.per_shard)
    found = {system: python_of(system, [sys.executable, *options.peers_python]) for system in options.systems}
    about = {"clips": options.clips, "mib_per_second": options.mib_per_second, "latency_ms": options.latency_ms}
    about |= {"server": "given" if os.environ.get("AWS_ENDPOINT_URL") else "moto", "cores": os.cpu_count()}
    about |= {"left_out": [system for system, python in found.items() if python is None]}
    moved, bandwidth = multiprocessing.Value("q"), options.mib_per_second * (1 << 20)
    with (
        tempfile.TemporaryDirectory() as scratch,
        server(),
        proxy(os.environ["AWS_ENDPOINT_URL"], bandwidth, options.latency_ms / 1000, moved) as far,
    ):
        race = Race({name: python for name, python in found.items() if python}, corpus, far, moved, Path(scratch) / "c")
        race.fill()
        readings = []
        for one in race.rounds(options.rounds):
            readings.append(one)
            about |= {"load": os.getloadavg(), "readings": [asdict(one) for one in readings]}
            options.json.write_text(json.dumps(about, indent=1) + "\n")
    print("left out:", ", ".join(about["left_out"]) or "none")
    show(readings)


if __name__ == "__main__":
    main()
