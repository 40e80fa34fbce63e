"""Results of commands as JSON (`--json`): one object on standard output."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any

import numpy as np

from headrace.format.snapshots.snapshots import NumberedSnapshot
from headrace.upkeep.inspection import DatasetFacts, PartFacts, ViewFacts


def print_json(content: Mapping[str, object]) -> None:
    """Print one object."""
    print(json.dumps(plain(content), ensure_ascii=True, indent=1))


def plain(value: Any) -> Any:  # noqa: ANN401 - any result of a command
    """A value of dataclasses, tuples and numbers of numpy as JSON values."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, np.generic):
        return value.item()
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(found) for key, found in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list(map(plain, value))
    return value


def facts_content(facts: DatasetFacts) -> dict[str, object]:
    """Content that `headrace inspect` prints; for snapshots their totals, not their partitions."""
    return {
        "path": facts.path,
        "parts": list(map(_part, facts.parts)),
        "views": list(map(_view, facts.views)),
        "catalog": facts.catalog,
        "tars": facts.tars,
    }


def _part(part: PartFacts) -> dict[str, object]:
    num_unnamed, num_bytes = part.unnamed
    return {
        "name": part.name,
        "splits": part.splits,
        "lengths": part.lengths,
        "snapshots": list(map(_snapshot, part.snapshots)),
        "columns": part.columns,
        "num_rejected": part.num_rejected,
        "rejects": [dict(zip(("key", "path", "code", "reason"), row, strict=True)) for row in part.rejects],
        "unnamed_shards": {"num_shards": num_unnamed, "num_bytes": num_bytes},
    }


def _snapshot(numbered: NumberedSnapshot) -> dict[str, object]:
    found = numbered.snapshot
    return {
        "number": numbered.number,
        "num_samples": found.num_samples,
        "num_shards": found.num_shards,
        "fingerprint": found.fingerprint,
        "catalog": found.catalog,
        "origin": found.origin,
    }


def _view(view: ViewFacts) -> dict[str, object]:
    newest = view.newest
    return {
        "name": view.name,
        "numbers": view.numbers,
        "number": newest.number,
        "audio_snapshot": newest.snapshot.audio_snapshot,
        "definition": str(newest.snapshot.definition),
        "splits": newest.snapshot.splits,
    }
