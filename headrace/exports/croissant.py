"""Exports tars with a description in Croissant 1.0, `croissant.json`: the tars with their SHA-256, and the samples.

What only people know (licence, authors, date) is taken over from the description that is there, so it is edited once.
"""

import json
from typing import Any

from headrace.exports.exporter import ExportFields, ExportSample, ExportShard, Takes, Written
from headrace.exports.folder import ExportFolder
from headrace.exports.webdataset import WebDatasetExporter
from headrace.format.indexes.index import ShardIndex
from headrace.format.typed_json import json_value

_FILE = "croissant.json"
_TERMS = """
citeAs column conformsTo examples extract field fileProperty fileObject fileSet format includes isLiveDataset jsonPath
key md5 parentField path recordSet references regex repeated replace separator source subField transform
"""
_DEFAULTS = {
    "description": "Audio in WebDataset shards, written by Headrace.",
    "license": "https://spdx.org/licenses/LicenseRef-unknown",
    "creator": {"@type": "Organization", "name": "unknown"},
    "datePublished": "1970-01-01",
    "url": "https://example.org",
}


class CroissantExporter:
    """Tars and their description. See `exporter.Exporter`."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._tars = WebDatasetExporter(folder, self._describe)
        self._files: list[dict[str, Any]] = []
        self._extensions: set[str] = set()

    def begin(self, fields: ExportFields) -> Takes:
        """See `Exporter.begin`."""
        fields.check_audio("croissant")
        self._fields = fields
        return self._tars.begin(fields)

    def add_shard(self, shard: ExportShard) -> None:
        """See `Exporter.add_shard`."""
        self._tars.add_shard(shard)

    def add(self, sample: ExportSample) -> None:
        """See `Exporter.add`."""
        self._tars.add(sample)

    def finish(self) -> Written:
        """See `Exporter.finish`."""
        written = self._tars.finish()
        content = json.dumps(self._content(), indent=2, ensure_ascii=False) + "\n"
        self._folder.write_edited(_FILE, content.encode())
        return written

    def _describe(self, _split: str, index: ShardIndex) -> None:
        self._extensions |= index.audio_counts.keys()
        self._files.append(
            {
                "@type": "cr:FileObject",
                "@id": index.shard,
                "name": index.shard,
                "contentUrl": index.shard,
                "encodingFormat": "application/x-tar",
                "contentSize": f"{index.num_bytes} B",
                "sha256": index.sha256,
            }
        )

    def _content(self) -> dict[str, Any]:
        return {
            "@context": _context(),
            "@type": "sc:Dataset",
            "conformsTo": "http://mlcommons.org/croissant/1.0",
            "name": self._fields.name,
            "version": f"{self._fields.snapshot}.0.0",
            **_DEFAULTS,
            **self._described(),
            "distribution": [*self._files, *(self._file_set(extension) for extension in sorted(self._extensions))],
            "recordSet": [_records(extension) for extension in sorted(self._extensions)],
        }

    def _described(self) -> dict[str, Any]:
        """Values that the present description has for the data set as a whole."""
        try:
            content = json_value(self._folder.former(_FILE) or b"{}")
        except ValueError:
            return {}
        return {name: content[name] for name in (*_DEFAULTS, "name", "citeAs", "keywords") if name in content}

    def _file_set(self, extension: str) -> dict[str, Any]:
        return {
            "@type": "cr:FileSet",
            "@id": f"{extension}-files",
            "name": f"{extension}-files",
            "containedIn": [{"@id": file["@id"]} for file in self._files],
            "encodingFormat": f"audio/{extension}",
            "includes": f"*.{extension}",
        }


def _records(extension: str) -> dict[str, Any]:
    """The table of the samples of a codec: key and audio."""
    records = f"{extension}-samples"
    source = {"fileSet": {"@id": f"{extension}-files"}}
    key = {**source, "extract": {"fileProperty": "filename"}, "transform": {"regex": rf"^(.*)\.{extension}$"}}
    audio = {**source, "extract": {"fileProperty": "content"}}
    return {
        "@type": "cr:RecordSet",
        "@id": records,
        "name": records,
        "field": [
            _field(f"{records}/key", "sc:Text", key),
            _field(f"{records}/audio", "sc:AudioObject", audio),
        ],
    }


def _field(name: str, kind: str, source: dict[str, Any]) -> dict[str, Any]:
    return {"@type": "cr:Field", "@id": name, "name": name, "dataType": kind, "source": source}


def _context() -> dict[str, Any]:
    """The JSON-LD context of Croissant 1.0."""
    terms = {name: f"cr:{name}" for name in _TERMS.split()} | {"conformsTo": "dct:conformsTo"}
    return {
        "@language": "en",
        "@vocab": "https://schema.org/",
        **terms,
        "cr": "http://mlcommons.org/croissant/",
        "data": {"@id": "cr:data", "@type": "@json"},
        "dataType": {"@id": "cr:dataType", "@type": "@vocab"},
        "dct": "http://purl.org/dc/terms/",
        "examples": {"@id": "cr:examples", "@type": "@json"},
        "rai": "http://mlcommons.org/croissant/RAI/",
        "sc": "https://schema.org/",
    }
