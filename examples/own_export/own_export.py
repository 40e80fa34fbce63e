"""A form of export of one's own: an audio file for each sample in a folder for each split, and a list.

headrace export OUT DEST --to files
"""

from headrace.errors import ConfigError
from headrace.exports.exporter import ExportFields, ExportSample, Takes, Written
from headrace.exports.folder import ExportFolder


class FilesExporter:
    """Files `SPLIT/KEY.EXTENSION`, and `list.tsv` with the text of each."""

    def __init__(self, folder: ExportFolder) -> None:
        self._folder = folder
        self._lines: list[str] = []

    def begin(self, fields: ExportFields) -> Takes:  # noqa: ARG002 - all are alike
        """Samples, not whole shards."""
        return Takes.SAMPLES

    def add(self, sample: ExportSample) -> None:
        """Write the first audio file of a sample, and its line."""
        if not sample.audio:
            raise ConfigError(f"sample {sample.key!r} has no audio, and files are made of it; use --to webdataset")
        audio = next(iter(sample.audio.values()))
        path = f"{sample.split}/{sample.name}.{audio.extension}"
        self._folder.write(path, audio.blob)
        self._lines.append(f"{path}\t{sample.metadata.get('text', '')}\n")

    def finish(self) -> Written:
        """Write the list."""
        self._folder.write("list.tsv", "".join(self._lines).encode())
        return Written(num_files=len(self._lines))
