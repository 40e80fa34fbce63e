"""Reads an export with NVIDIA DALI on the CPU, by the exported indexes; its own decoder decodes."""

import json
import sys
from pathlib import Path

import numpy as np
from found import show
from nvidia.dali import fn, pipeline_def, types

tars = sorted(Path(sys.argv[1]).glob("*.tar"))


@pipeline_def(batch_size=1, num_threads=1, device_id=None)
def clips():
    """Audio and JSON."""
    audio, text = fn.readers.webdataset(
        paths=[str(tar) for tar in tars],
        index_paths=[str(tar.with_suffix(".idx")) for tar in tars],
        ext=["flac", "json"],
        missing_component_behavior="error",
        name="reader",
    )
    return fn.decoders.audio(audio, dtype=types.INT16)[0], text


def samples():
    """Key, audio and text of an epoch."""
    pipeline = clips()
    pipeline.build()
    for _ in range(pipeline.epoch_size("reader")):
        audio, text = pipeline.run()
        metadata = json.loads(bytes(np.array(text[0])))
        yield metadata["id"], np.array(audio[0]), metadata["text"]


show("nvidia-dali-cuda120", samples())
