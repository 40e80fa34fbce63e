"""A data set with texts, its exports in every form, and the digest of an export's files."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from headrace.exports.exporting import export_snapshot
from headrace.stores.storage import LocalStorage
from tests.support.column_fixtures import write_columns
from tests.support.streaming.corpus import Clip, clips, write_dataset

FORMS = ("webdataset", "parquet", "nemo", "lhotse", "energon", "dali", "croissant")
_COLUMNS = ("id", "text", "speaker")


@dataclass(frozen=True, slots=True)
class Spoken(Clip):
    """A clip with a text."""

    @property
    def text(self) -> str:
        """Its text, with letters that are not ASCII."""
        return f"Satz № {self.number}: »Grüße«"

    def metadata(self) -> dict[str, str]:
        """The values of its columns."""
        return {"id": self.key, "text": self.text, "speaker": f"p{self.number % 3}"}

    def json(self) -> bytes:
        """See `Clip`."""
        return json.dumps(self.metadata()).encode()


def spoken() -> list[Spoken]:
    """The samples of the data set."""
    return [Spoken(clip.number, clip.num_frames, rate_hz=16_000) for clip in clips(20, frames=(3_000, 9_000))]


def exported(form: str, folder: Path) -> Path:
    """The data set in three shards, exported in a form. Returns the export."""
    if not (folder / "output").exists():
        samples = {one.key: one for one in spoken()}
        write_dataset(folder / "output", {"train": list(samples.values())}, per_shard=7)
        columns = {name: ("string", lambda key, name=name: samples[key].metadata()[name]) for name in _COLUMNS}
        write_columns(folder / "output", "metadata", columns)
    export_snapshot(LocalStorage(folder / "output/audio"), LocalStorage(folder / form), form)
    return folder / form


def digest_of(folder: Path) -> str:
    """The digest of the names and bytes of all files of an export, hidden ones of Headrace apart."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith(".headrace"):
            digest.update(f"{path.relative_to(folder)}\0".encode() + hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()
