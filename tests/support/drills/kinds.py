"""A data set with a field of every kind, for drills, and where each kind is on disk."""

import json
from dataclasses import dataclass
from pathlib import Path

from headrace.errors import HeadraceError
from headrace.format.indexes.index_files import read_index
from headrace.stores.storage import open_storage
from tests.support.projects import Project
from tests.support.tiny_texts import save_text

COUNT = 8
CAPTIONS = ("a dog barks", "the cat", "music and rain", "a bird sings")


@dataclass(frozen=True, slots=True)
class Kind:
    """The place of the fields of a kind, and how they are read.

    Attributes:
        folder: the folder of the output.
        field: the field that a reader asks for.
        number: for latents, number of the output in the index.
    """

    folder: str
    field: str
    number: int = 0

    @property
    def is_latents(self) -> bool:
        """Whether it is in latent shards; else in a set of columns."""
        return self.folder.startswith("latents/")

    def flip(self, output: Path) -> Path:
        """Flip a bit in the middle of the values of some sample, or of the file of columns. Returns the file."""
        pattern = "*.tar" if self.is_latents else "*.columns"
        victim = min((output / self.folder).glob(pattern))
        content = bytearray(victim.read_bytes())
        place = len(content) // 2
        if self.is_latents:
            start, stop, *_ = read_index(open_storage(str(victim.parent)), victim.name).row(0).tensors[self.number]
            place = (start + stop) // 2
        content[place] ^= 16
        victim.write_bytes(content)
        return victim

    def read(self, output: Path) -> dict[str, object]:
        """Read the field of every sample. Returns it by key, as text."""
        from headrace import StreamingDataset

        asked = {"latents": [self.folder.partition("/")[2]]} if self.is_latents else {}
        asked |= {} if self.is_latents else {"columns": [self.folder.partition("/")[2]]}
        dataset = StreamingDataset(remote=f"{output}/audio", batch_size=1, **asked)
        samples = (dataset.get_item(number) for number in range(dataset.num_samples))
        return {s["__key__"]: str(s[self.field] if self.is_latents else s["metadata"][self.field]) for s in samples}

    def outcome(self, output: Path) -> str:
        """The error that reading ends with; empty without one."""
        try:
            self.read(output)
        except HeadraceError as error:
            return str(error)
        return ""


KINDS = {
    "frames": Kind("latents/mel", "encoder_hidden"),
    "codes": Kind("latents/units", "codes"),
    "codes beside others": Kind("latents/several", "codes"),
    "frames beside others": Kind("latents/several", "levels", 1),
    "vector": Kind("latents/several", "embedding", 2),
    "vector of a text": Kind("latents/captions", "embedding"),
    "text": Kind("columns/events", "caption"),
    "number": Kind("columns/events", "score"),
    "intervals": Kind("columns/events", "turns"),
    "feature": Kind("columns/loudness", "rms_dbfs"),
}


def every_kind(folder: Path) -> Project:
    """A project with a field of every kind, not built yet."""
    project = Project(folder)
    project.write_titled_tones(COUNT)
    rows = [
        {
            "path": f"tone{number:03d}.wav",
            "caption": CAPTIONS[number % len(CAPTIONS)],
            "score": number / 7,
            "turns": [{"start": 0.0, "end": 0.01 * (number + 1), "speaker": f"s{number}"}],
        }
        for number in range(COUNT)
    ]
    table = folder / "events.jsonl"
    table.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mel = {"kind": "log_mel", "num_mels": 4}
    static = {"kind": "text", "model": str(save_text("static", folder / "static"))}
    quantizer = {"kind": "custom", "encoder": "tests.support.outputs_encoder:Quantizer"}
    project.write_yaml(
        shards={"samples_per_shard": 3, "partitions": {"train": 2, "test": 1}},
        columns=[{"name": "events", "table": {"uri": str(table), "types": {"turns": "intervals"}}}],
        features=[{"name": "loudness", "kind": "levels"}],
        latents=[
            {"name": "mel", "encoder": mel, "dtype": "float32"},
            {"name": "units", "encoder": {"kind": "kmeans", "encoder": mel, "num_codes": 4}},
            {"name": "several", "encoder": quantizer, "dtype": "float32"},
            {"name": "captions", "encoder": static, "column": "events.caption", "dtype": "float32"},
        ],
    )
    return project
