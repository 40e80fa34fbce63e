"""Peers that need an environment of their own: run by `read.py --peers-python`, never by hand.

NVIDIA DALI on the CPU: readers.webdataset, decoders.audio, pad; results as numpy arrays.
"""

import argparse
import json
import os
import resource
import time
from pathlib import Path

import numpy as np
from nvidia.dali import fn, pipeline_def, types

BATCH = 32


def read(folder: Path, num_threads: int):  # noqa: ANN201 - the peers' environment has no type checker
    """Number of samples of each batch."""
    tars = [str(path) for path in sorted((folder / "audio").glob("*.tar"))]

    @pipeline_def(batch_size=BATCH, num_threads=num_threads, device_id=None, prefetch_queue_depth=2)
    def pipeline():  # noqa: ANN202
        audio, text = fn.readers.webdataset(
            paths=tars, ext=["flac", "json"], random_shuffle=True, initial_fill=100, name="reader",
            missing_component_behavior="error",
        )  # fmt: skip
        samples, _ = fn.decoders.audio(audio, dtype=types.FLOAT, downmix=True)
        return fn.pad(samples, fill_value=0), text

    built = pipeline()
    built.build()
    total, done = built.epoch_size("reader"), 0
    while done < total:
        samples, text = built.run()
        count = min(BATCH, total - done)
        done += count
        np.array(samples.as_tensor())
        [json.loads(bytes(np.array(text[row]))) for row in range(count)]
        yield count


def main() -> None:
    """One run; prints the reading that `read.py` expects."""
    parser = argparse.ArgumentParser()
    for name in ("--run", "--kind", "--folder", "--workers"):
        parser.add_argument(name)
    options = parser.parse_args()
    start, before = time.perf_counter(), os.times()
    first, count = 0.0, 0
    for num_samples in read(Path(options.folder), int(options.workers)):
        first = first or time.perf_counter() - start
        count += num_samples
    after = os.times()
    reading = {
        "system": options.run, "kind": options.kind, "num_samples": count, "seconds": time.perf_counter() - start,
        "first_seconds": first, "cpu_seconds": after.user + after.system - before.user - before.system,
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }  # fmt: skip
    print(json.dumps(reading))


if __name__ == "__main__":
    main()
