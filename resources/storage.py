"""Opening the folders and buckets that a data set's YAML names.

Owns how a relative URI is resolved and where the parts of an output lie. It opens lazily, and reads nothing but the
tables that `metadata` and `catalog` are asked for: these alone bring polars, which a code server does without.
"""

import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg

from headrace.bucket_source import open_source, stamp_of
from headrace.config import DatasetConfig
from headrace.errors import ConfigError, NotFoundError
from headrace.sources import Source, Stamp
from headrace.storage import Storage, open_storage

if TYPE_CHECKING:
    import polars as pl

    from headrace.catalog import Catalog

REPOSITORY_ROOT = Path(__file__).resolve().parent.parent


class StorageResource(dg.ConfigurableResource):
    """Stores of a data set; relative URIs are below `root`, the repository's folder unless another is given."""

    root: str = str(REPOSITORY_ROOT)

    def resolve(self, uri: str) -> str:
        """The URI itself, or an absolute path for a relative one; `~` at the start is the home folder.

        Raises:
            ConfigError: `~name` names nobody here.
        """
        if "://" in uri:
            return uri
        path = os.path.expanduser(uri)  # noqa: PTH111 - Path would take ./~ for ~
        if path.startswith("~"):
            raise ConfigError(
                f"{uri}: there is no home folder of {uri.partition('/')[0]}; write the path itself, or ./{uri} for a "
                "folder of that name"
            )
        return str(Path(self.root, path))

    def source(self, config: DatasetConfig) -> Source:
        """The raw recordings. The metadata table and the output are no recordings, even below the source's root."""
        aside = [config.output.uri] if config.source.metadata is None else [config.output.uri, config.source.metadata]
        return open_source(self.resolve(config.source.uri), exclude=[self.resolve(uri) for uri in aside])

    def metadata(self, config: DatasetConfig) -> "pl.DataFrame | None":
        """The user's table; None where the YAML names none."""
        from headrace.metadata import read_metadata  # noqa: PLC0415 - see above

        if config.source.metadata is None:
            return None
        uri = self.resolve(config.source.metadata)
        if "://" not in uri:
            return read_metadata(uri)
        root, _, name = uri.rpartition("/")
        with tempfile.TemporaryDirectory(prefix="headrace-") as folder:
            copy = Path(folder, name)
            try:
                copy.write_bytes(open_storage(root).read(name))
                return read_metadata(copy)
            except NotFoundError as error:
                raise ConfigError(f"metadata table {uri}: there is no such object") from error
            except ConfigError as error:
                raise ConfigError(str(error).replace(str(copy), uri)) from error

    def metadata_stamp(self, config: DatasetConfig) -> Stamp | None:
        """Size and time of change of the user's table; None where there is none, or none that could be read."""
        if config.source.metadata is None:
            return None
        uri = self.resolve(config.source.metadata)
        try:
            if "://" in uri:
                root, _, name = uri.rpartition("/")
                return stamp_of(open_storage(root).stat(name))
            status = Path(uri).stat()
        except OSError:
            return None
        return Stamp(status.st_size, status.st_mtime_ns)

    def output(self, config: DatasetConfig) -> Storage:
        """The whole output: `catalog/`, `audio/`, `latents/`."""
        return open_storage(self.resolve(config.output.uri))

    def catalog(self, config: DatasetConfig) -> "Catalog":
        """The stored catalog. Raises `CatalogError` before the first scan."""
        from headrace.catalog_update import existing_catalog  # noqa: PLC0415 - see above

        return existing_catalog(self.output(config))

    def audio(self, config: DatasetConfig) -> Storage:
        """The folder of audio shards."""
        return self.output(config).at("audio")

    def latents(self, config: DatasetConfig, name: str) -> Storage:
        """The folder of one set of latents."""
        return self.output(config).at(f"latents/{name}")

    def parts(self, config: DatasetConfig) -> dict[str, Storage]:
        """All shard folders of a data set by name: `audio`, `latents crepe`."""
        latents = {f"latents {entry.name}": self.latents(config, entry.name) for entry in config.latents}
        return {"audio": self.audio(config), **latents}
