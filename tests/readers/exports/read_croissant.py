"""Reads an export with mlcroissant. The form describes keys and audio, and no texts."""

import sys

import mlcroissant
from found import decoded, show

(records,) = (one.name for one in mlcroissant.Dataset(f"{sys.argv[1]}/croissant.json").metadata.record_sets)
rows = mlcroissant.Dataset(f"{sys.argv[1]}/croissant.json").records(records)
show("mlcroissant", ((row[f"{records}/key"].decode(), decoded(row[f"{records}/audio"]), None) for row in rows))
