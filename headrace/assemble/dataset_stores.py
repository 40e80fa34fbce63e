"""Opens the folders and buckets that a data set's YAML names, and resolves relative URIs.

Opening reads no file. Only `metadata`, `excluded` and `catalog` read tables, and only they import polars, so that a
code server does not load it.
"""

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from headrace.assemble.column_sets import columns_folder
from headrace.assemble.stages import Stage, StageKind, stages_of
from headrace.config.content import ColumnSetConfig
from headrace.config.dataset import DatasetConfig
from headrace.config.source import SourceConfig
from headrace.errors import ConfigError, NotFoundError
from headrace.source_kinds import FILES
from headrace.sources.bucket_source import BucketSource, stamp_of
from headrace.sources.late_source import LateSource
from headrace.sources.listing import FileStamp
from headrace.sources.named_files import is_one_pattern, pieces
from headrace.sources.sources import Corpus, corpus_of
from headrace.sources.table_places import TablePlace, table_places
from headrace.stores.file_urls import is_file_url, path_of_file_url
from headrace.stores.storage import Storage, open_bucket, open_storage

if TYPE_CHECKING:
    from headrace.catalog.stored.parts import StoredCatalog
    from headrace.catalog.tables.metadata_files import MetadataTable

Table = TypeVar("Table")
_COPY_BYTES = 16 << 20


@dataclass
class DatasetStores:
    """Stores of a data set.

    Attributes:
        root: folder to which relative URIs in the configuration are relative.
    """

    root: str = "."

    def resolve(self, uri: str) -> str:
        """The URL of a store itself, or the absolute path of a local URI; `~` at the start is the home folder.

        Raises:
            ConfigError: `~name` names no user of this machine.
        """
        if is_file_url(uri):
            return path_of_file_url(uri)
        if "://" in uri:
            return uri
        path = os.path.expanduser(uri)  # noqa: PTH111 - Path would take ./~ for ~
        if path.startswith("~"):
            raise ConfigError(
                f"{uri}: there is no home folder of {uri.partition('/')[0]}; write the path itself, or ./{uri} for a "
                "folder of that name"
            )
        return str(Path(self.root, path))

    def source(self, config: DatasetConfig) -> Corpus:
        """The raw recordings, without the user's tables and the output, even if these are below the source's root."""
        return self.late_source(config).opened()

    def late_source(self, config: DatasetConfig) -> LateSource:
        """The raw recordings, opened when the first is needed. It can be sent to a worker."""
        excluded = [self.resolve(config.output.uri), *self._tables(config).values()]
        root = self._resolved_source(config.source)
        return LateSource(partial(corpus_of, config.source, root, exclude=excluded))

    def _resolved_source(self, source: SourceConfig) -> str:
        """`source.uri`, which some kinds take as several paths with commas between them."""
        whole = self.resolve(source.uri)
        is_one = "," not in source.uri or "://" in whole or Path(whole).exists() or is_one_pattern(whole)
        if source.kind == FILES or is_one:
            return whole
        return ",".join(self.resolve(part) for part in pieces(source.uri))

    def metadata(self, config: DatasetConfig) -> "MetadataTable | None":
        """The user's metadata table, or the rows of the source itself; None if there are neither."""
        from headrace.catalog.tables.corpus_tables import open_rows, with_intervals, with_metadata  # noqa: PLC0415 - see above
        from headrace.catalog.tables.metadata_files import open_metadata_files  # noqa: PLC0415 - see above

        source = config.source
        rows = self.source(config).rows() if source.has_own_rows else None
        own = None if rows is None else open_rows(rows.read(), source)
        if source.metadata is None:
            return None if own is None else with_intervals(own, source)
        owner = _Folder()
        places = self.metadata_places(config)
        files = [self._table(one.place, "metadata table", lambda file, shown: (file, shown), owner) for one in places]
        joined_by = source.path_column if own is None else str(source.columns.key)
        form = source.table if own is None else source.table.without_types(own.schema)
        table = open_metadata_files(
            files,
            path_column=joined_by,
            text_columns=source.text_columns,
            owner=owner,
            form=form,
            may_lack_types=bool(source.sidecars),
            mixed_columns=[name for name in [source.columns.channel] if name is not None],
        )
        return with_intervals(table if own is None else with_metadata(own, table, joined_by), source)

    def metadata_places(self, config: DatasetConfig) -> tuple[TablePlace, ...]:
        """The files of the metadata table, in their order."""
        output, source = self.resolve(config.output.uri), self._resolved_source(config.source)
        return table_places(config.source.metadata or (), self.resolve, source, output)

    def excluded(self, config: DatasetConfig) -> frozenset[str]:
        """The keys of `exclude`, from the YAML or from a table."""
        from headrace.catalog.tables.metadata_files import read_keys  # noqa: PLC0415 - see above

        if isinstance(config.exclude, tuple):
            return frozenset(config.exclude)
        return self._table(config.exclude.uri, "table of keys", partial(read_keys, form=config.exclude))

    def _table(self, uri: str, kind: str, read: Callable[[Path, str], Table], folder: "_Folder | None" = None) -> Table:
        """The result of `read` on the user's table: on the file, or on a copy of the object in a temporary folder."""
        place = self.resolve(uri)
        if "://" not in place:
            return read(Path(place), place)
        root, _, name = place.rpartition("/")
        folder = folder or _Folder()
        copy = folder.path() / name  # objects of several folders may have one name
        try:
            store = open_bucket(root)
            with BucketSource(store).open(name, stamp_of(store.stat(name))) as data, copy.open("wb") as file:
                shutil.copyfileobj(data, file, _COPY_BYTES)
        except NotFoundError as error:
            raise ConfigError(f"{kind} {place}: no such object") from error
        return read(copy, place)

    def table_stamps(self, config: DatasetConfig) -> dict[str, FileStamp | None]:
        """Size and modification time of each of the user's tables; None for a table that cannot be read.

        The tables of the source itself (`Corpus.rows`) are among them.
        """
        stamps = {name: self._stamp(place) for name, place in self._tables(config).items()}
        rows = self.source(config).rows() if config.source.has_own_rows else None
        return stamps if rows is None else {**stamps, **rows.stamps()}

    def _tables(self, config: DatasetConfig) -> dict[str, str]:
        """The user's tables by name, with their places: the metadata, the keys to exclude, and tables of columns."""
        keys = None if isinstance(config.exclude, tuple) else config.exclude.uri
        joined = (entry.table.uri for entry in config.columns)
        others = {uri: self.resolve(uri) for uri in (keys, *joined) if uri is not None}
        return {one.name: one.place for one in self.metadata_places(config)} | others

    def _stamp(self, place: str) -> FileStamp | None:
        try:
            if "://" in place:
                root, _, name = place.rpartition("/")
                return stamp_of(open_storage(root).stat(name))
            status = Path(place).stat()
        except OSError:
            return None
        return FileStamp.of(status)

    def output(self, config: DatasetConfig) -> Storage:
        """The whole output: `catalog/`, `audio/`, `latents/`."""
        return open_storage(self.resolve(config.output.uri))

    def catalog(self, config: DatasetConfig) -> "StoredCatalog":
        """The stored catalog.

        Raises:
            CatalogError: there is no catalog yet, or splits, partitions or groups have changed since.
        """
        from headrace.catalog.stored.parts import current_catalog  # noqa: PLC0415 - see above

        return current_catalog(self.output(config), config)

    def audio(self, config: DatasetConfig) -> Storage:
        """The folder of audio shards."""
        return self.output(config).at("audio")

    def latents(self, config: DatasetConfig, name: str) -> Storage:
        """The folder of one set of latents."""
        return self.output(config).at(f"latents/{name}")

    def columns(self, config: DatasetConfig, name: str) -> Storage:
        """The folder of one set of columns."""
        return columns_folder(self.output(config), name)

    def folders(self, config: DatasetConfig) -> dict[str, Storage]:
        """The shard folder of each stage (`Stage.part`), upstream first."""
        return self._folders(config, stages_of(config))

    def column_table(self, entry: ColumnSetConfig) -> "MetadataTable":
        """The table of a set of columns."""
        from headrace.catalog.tables.metadata_files import open_table  # noqa: PLC0415 - see above

        owner = _Folder()
        read = partial(open_table, owner=owner, form=entry.table, text_columns=tuple(entry.joined.values()))
        return self._table(entry.table.uri, "table", read, owner)

    def has_table(self, entry: ColumnSetConfig) -> bool:
        """Whether the table of a set of columns exists. Raises what a store raises that does not answer."""
        place = self.resolve(entry.table.uri)
        if "://" not in place:
            return os.path.lexists(place)
        root, _, name = place.rpartition("/")
        return open_bucket(root).exists(name)

    def parts(self, config: DatasetConfig) -> dict[str, Storage]:
        """The shard folder of each stage that has samples: the audio and the latents."""
        return self._folders(config, stages_of(config, StageKind.AUDIO, StageKind.LATENTS))

    def _folders(self, config: DatasetConfig, stages: Iterable[Stage]) -> dict[str, Storage]:
        output = self.output(config)
        return {stage.part: output.at(stage.folder) for stage in stages}


class _Folder:
    """Temporary folders that are made when they are needed, and deleted with this object."""

    def path(self) -> Path:
        """A new folder."""
        folder = tempfile.mkdtemp(prefix="headrace-")
        weakref.finalize(self, shutil.rmtree, folder)
        return Path(folder)
