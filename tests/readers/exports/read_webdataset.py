"""Reads an export with WebDataset."""

import json
import sys
from pathlib import Path

import webdataset
from found import decoded, show

tars = sorted(map(str, Path(sys.argv[1]).glob("*.tar")))
samples = webdataset.WebDataset(tars, shardshuffle=False)
show("webdataset", ((one["__key__"], decoded(one["flac"]), json.loads(one["json"])["text"]) for one in samples))
