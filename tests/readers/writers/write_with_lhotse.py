"""Writes a corpus by Lhotse's own writers: manifests, cuts, Shar, and a Kaldi data directory of its exporter.

python write_with_lhotse.py WAVS TARGET        WAVS has utt-0.wav and so on, and texts.json
"""

import json
import sys
from pathlib import Path

import lhotse
from lhotse import CutSet, Recording, RecordingSet, SupervisionSegment, SupervisionSet
from lhotse.kaldi import export_to_kaldi

wavs, target = map(Path, sys.argv[1:])
texts = json.loads((wavs / "texts.json").read_text())
recordings = RecordingSet.from_recordings(Recording.from_file(path) for path in sorted(wavs.glob("*.wav")))
supervisions = SupervisionSet.from_segments(
    SupervisionSegment(f"sup-{one.id}", one.id, 0.0, one.duration, text=texts[one.id], speaker="ann", language="en")
    for one in recordings
)
cuts = CutSet.from_manifests(recordings=recordings, supervisions=supervisions)

folders = {name: target / name for name in ("manifests", "cuts", "shar", "kaldi")}
for folder in folders.values():
    folder.mkdir(parents=True)
recordings.to_file(folders["manifests"] / "all_recordings.jsonl.gz")
supervisions.to_file(folders["manifests"] / "all_supervisions.jsonl.gz")
cuts.to_file(folders["cuts"] / "cuts.jsonl.gz")
cuts.to_shar(folders["shar"], fields={"recording": "flac"}, shard_size=3)
export_to_kaldi(recordings, supervisions, folders["kaldi"])
print(json.dumps({"lhotse": lhotse.__version__}))  # noqa: T201 - its result
