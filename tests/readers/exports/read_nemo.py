"""Reads an export with NeMo's reader of tarred data sets."""

import sys
from pathlib import Path

from found import show
from nemo.collections.common.data.lhotse.nemo_adapters import LazyNeMoTarredIterator

folder = Path(sys.argv[1])
numbers = f"_OP_0..{len(list(folder.glob('audio_*.tar'))) - 1}_CL_"
cuts = LazyNeMoTarredIterator(
    manifest_path=f"{folder}/sharded_manifests/manifest_{numbers}.json", tar_paths=f"{folder}/audio_{numbers}.tar"
)
show(
    "nemo_toolkit",
    ((cut.recording_id.removesuffix(".flac"), cut.load_audio(), cut.supervisions[0].text) for cut in cuts),
)
