"""The header of a table of columns that was imported: names its parts, one for each partition.

A scan divides a table that the YAML names under `columns` among the partitions, so that the run of a partition reads
its own rows, and a sensor sees which partitions have other rows now. This module needs no polars, which would cost a
code server 65 MB. `headrace.assemble.column_tables` writes the parts.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass

from headrace.errors import FormatError, NotFoundError
from headrace.format.typed_json import typed
from headrace.format.versioned_json import versioned_bytes, versioned_json
from headrace.stores.storage import Storage

TABLES_FOLDER = "catalog/columns/"
_VERSION = "headrace_column_table"


@dataclass(frozen=True, slots=True)
class TablePart:
    """The rows of a table that concern one partition.

    Attributes:
        path: its file below the output; contains the first 12 digits of the digest.
        num_bytes: size of the file.
        sha256: digest of its bytes, hex.
        num_rows: number of rows.
        num_without: samples of the partition without a row; recordings, if the table joins by path.
    """

    path: str
    num_bytes: int
    sha256: str
    num_rows: int
    num_without: int


@dataclass(frozen=True, slots=True)
class ColumnTableHeader:
    """The header of one imported table.

    Attributes:
        inputs: digest of what the table was imported from: its file, the settings and the catalog.
        on: what the table is joined by: `key` or `path`.
        column: the joined column.
        types: column → its type, for the columns that are joined.
        num_rows: rows of the table.
        num_merged: rows that were left out because they repeat another row.
        num_unmatched: rows that match no sample.
        unmatched: file below the output that lists them with reasons; empty if there are none.
        partitions: partition → its rows.
        left: rows of the last import without a sample, kept for the time when the table cannot be read.
    """

    inputs: str
    on: str
    column: str
    types: Mapping[str, str]
    num_rows: int
    num_merged: int
    num_unmatched: int
    unmatched: str
    partitions: Mapping[str, TablePart]
    left: TablePart | None = None

    @property
    def num_without(self) -> int:
        """See `TablePart.num_without`; of all partitions."""
        return sum(part.num_without for part in self.partitions.values())

    @property
    def rows(self) -> dict[str, str]:
        """Partition → digest of its rows."""
        return {name: part.sha256 for name, part in self.partitions.items()}

    def parts(self) -> list[TablePart]:
        """All parts."""
        return [*self.partitions.values(), *([] if self.left is None else [self.left])]

    def paths(self) -> Iterator[str]:
        """All files that the header names."""
        yield from (part.path for part in self.parts())
        if self.unmatched:
            yield self.unmatched

    def to_bytes(self) -> bytes:
        """The content of the file. Equal headers give equal bytes."""
        return versioned_bytes(_VERSION, asdict(self))

    @classmethod
    def from_bytes(cls, blob: bytes, name: str) -> "ColumnTableHeader":
        """Parse a header. Raises `FormatError` if it is damaged, or has another format version."""
        content = versioned_json(blob, name, _VERSION)
        try:
            return typed(cls, content)
        except ValueError as error:
            raise FormatError(f"{name}: an incomplete header ({error}); delete it and scan the source again") from error


def table_folder(name: str) -> str:
    """The folder of an imported table below the output."""
    return f"{TABLES_FOLDER}{name}/"


def header_path(name: str) -> str:
    """The header of an imported table below the output."""
    return f"{table_folder(name)}table.json"


def read_table_header(output: Storage, name: str) -> ColumnTableHeader | None:
    """The header of the table of a set of columns; None before its first import. Raises `FormatError`."""
    path = header_path(name)
    try:
        return ColumnTableHeader.from_bytes(output.read(path), f"{output.uri}/{path}")
    except NotFoundError:
        return None
