"""Two kinds of source as other packages write them: byte ranges of larger files, and rows without a listing."""

import json
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from headrace.source_kinds import SourceKind
from headrace.sources.items import Item, ItemCorpus, Place
from headrace.sources.named_files import joined, relative


class PackItems:
    """Recordings one after another in `*.pack`; `*.index` beside each has a line `name start length` for each."""

    def __init__(self, root):
        self.root = root

    def items(self):
        for pack in sorted(Path(self.root).glob("*.pack")):
            for name, (_, num_bytes) in self._index(pack).items():
                yield Item(f"{relative(self.root, str(pack))}/{name}", str(pack), num_bytes)

    def place(self, path, stamp):
        pack, _, name = path.rpartition("/")
        file = Path(self.root, pack)
        return Place(str(file), self._index(file)[name][0])

    def rows(self):
        for item in self.items():
            yield {"path": item.path, "id": item.path.rpartition("/")[2], "pack": Path(item.file).name}

    def tables(self):
        return sorted(map(str, Path(self.root).glob("*.index")))

    def _index(self, pack):
        lines = pack.with_suffix(".index").read_text().splitlines()
        return {name: (int(start), int(length)) for name, start, length in map(str.split, lines)}


class RowItems:
    """`rows.json` names the recordings, which may be anywhere; there is nothing to list."""

    def __init__(self, root, options):
        self.root, self.file = root, f"{root}/{options.table}"

    def items(self):
        for row in self.rows():
            yield Item(row["path"], joined(self.root, row["path"]))

    def place(self, path, stamp):
        return Place(joined(self.root, path))

    def rows(self):
        for row in json.loads(Path(self.file).read_text()):
            yield {**row, "path": relative(self.root, joined(self.root, row["path"]))}

    def tables(self):
        return [self.file]


class RowOptions(BaseModel):
    model_config = ConfigDict(extra="forbid")
    table: str = "rows.json"


PACKS = SourceKind(lambda uri, options, exclude: ItemCorpus(uri, PackItems(uri)))
ROWS = SourceKind(lambda uri, options, exclude: ItemCorpus(uri, RowItems(uri, options)), RowOptions, columns={})
