"""The contract of corpora, on tapes."""

import json

from headrace.source_kinds import source_kind
from headrace.testing import CorpusContract
from headrace.testing.corpus_contract import Change


class TestTapes(CorpusContract):
    """Every test of the contract."""

    def write(self, folder):
        self.tape(folder, "a", [b"first" * 40, b"second" * 30])
        self.tape(folder, "b", [b"third" * 20])

    def opened(self, folder):
        kind = source_kind("tapes")
        return kind.open(str(folder), kind.options(), ())

    def change(self, folder):
        self.tape(folder, "a", [b"first" * 40, b"seconD" * 31])
        return Change("a/1.wav", beside=frozenset({"a/0.wav"}))

    def harm(self, folder):
        return {}

    def tape(self, folder, name, contents):
        entries, start = [], 0
        for number, content in enumerate(contents):
            entries.append({"name": f"{number}.wav", "start": start, "num_bytes": len(content), "text": f"side {name}"})
            start += len(content)
        (folder / f"{name}.tape").write_bytes(b"".join(contents))
        (folder / f"{name}.json").write_text(json.dumps(entries))
