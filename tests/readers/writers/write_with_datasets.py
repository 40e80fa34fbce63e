"""Writes a corpus by the writers of Hugging Face `datasets` (Parquet) and of webdataset (tars).

python write_with_datasets.py WAVS TARGET      WAVS has utt-0.wav and so on, and texts.json
"""

import json
import sys
from importlib.metadata import version
from pathlib import Path

import webdataset

import datasets

wavs, target = map(Path, sys.argv[1:])
texts = json.loads((wavs / "texts.json").read_text())
audio = [{"bytes": (wavs / f"{name}.wav").read_bytes(), "path": f"{name}.wav"} for name in texts]
rows = datasets.Dataset.from_dict({"audio": audio, "text": list(texts.values())})
rows = rows.cast_column("audio", datasets.Audio(decode=False))
(target / "parquet/data").mkdir(parents=True)
for shard in range(2):
    rows.shard(2, shard).to_parquet(target / f"parquet/data/train-0000{shard}-of-00002.parquet")

(target / "tars").mkdir()
with webdataset.ShardWriter(str(target / "tars/train-%06d.tar"), maxcount=3, verbose=0) as tars:
    for row in rows:
        key = row["audio"]["path"].partition(".")[0]
        tars.write({"__key__": key, "wav": row["audio"]["bytes"], "json": {"text": row["text"]}})
print(json.dumps({name: version(name) for name in ("datasets", "pyarrow", "webdataset")}))  # noqa: T201 - its result
