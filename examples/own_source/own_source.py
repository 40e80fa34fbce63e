"""A kind of source of one's own: WAV files one after another in `NAME.tape`, with `NAME.json` beside it.

    source: {uri: tapes, kind: tapes}

The JSON is a list of objects with `name`, `start` and `num_bytes`, whose other keys are metadata.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from headrace.source_kinds import SourceKind
from headrace.sources.items import Item, ItemCorpus, Place


class TapeItems:
    """The recordings of the tapes in a folder."""

    def __init__(self, root: str) -> None:
        self.root = root

    def items(self) -> Iterator[Item]:
        """All recordings: a path, the file with the bytes, and their number."""
        for tape in sorted(Path(self.root).glob("*.tape")):
            for name, entry in _entries(tape).items():
                yield Item(f"{tape.stem}/{name}", str(tape), entry["num_bytes"])

    def place(self, path: str, stamp: object) -> Place:  # noqa: ARG002 - the name is enough
        """The place of the bytes of an item."""
        tape, _, name = path.partition("/")
        file = Path(self.root, f"{tape}.tape")
        try:
            return Place(str(file), _entries(file)[name]["start"])
        except KeyError:
            raise FileNotFoundError(f"{path}: the tape has it no more") from None

    def rows(self) -> Iterator[dict[str, Any]]:
        """The samples: values of JSON, with the path of the recording."""
        for tape in sorted(Path(self.root).glob("*.tape")):
            for name, entry in _entries(tape).items():
                about = {key: value for key, value in entry.items() if key not in {"name", "start", "num_bytes"}}
                yield {"path": f"{tape.stem}/{name}", "id": f"{tape.stem}-{name}", **about}

    def tables(self) -> Sequence[str]:
        """The files that `rows` reads."""
        return [str(path) for path in sorted(Path(self.root).glob("*.json"))]


def _entries(tape: Path) -> dict[str, dict[str, Any]]:
    return {entry["name"]: entry for entry in json.loads(tape.with_suffix(".json").read_text())}


KIND = SourceKind(lambda uri, _options, _exclude: ItemCorpus(uri, TapeItems(uri)))
