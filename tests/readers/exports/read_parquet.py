"""Reads an export with `load_dataset`, whose column Audio decodes by torchcodec."""

import sys

from found import show

import datasets

rows = datasets.load_dataset(sys.argv[1], split="train")
assert isinstance(rows.features["audio"], datasets.Audio)
show("datasets", ((row["key"], row["audio"].get_all_samples().data.numpy(), row["text"]) for row in rows))
