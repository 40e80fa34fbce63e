"""Parses, finds, writes and deletes the index file beside a tar.

`read_index` reads the index of a shard that Headrace built, which is always called `X.idx`. `find_index` looks beside
any tar, in folders in which other tools may keep indexes of their own: DALI's `wds2idx` also writes `X.idx`
beside `X.tar`. Files are distinguished by their content. Another tool's file is never replaced or deleted; Headrace's
index is then called `X.headrace.idx`.
"""

from dataclasses import dataclass

from headrace.errors import FormatError, NotFoundError, StorageError
from headrace.format import tables
from headrace.format.indexes.index import AUDIO_COLUMN, COLUMNS, FORMAT_VERSION, NOTE_PREFIX, ShardIndex, index_name
from headrace.format.indexes.index_flaws import check_index
from headrace.format.indexes.seek_table import GRID, PLACES, SeekTable
from headrace.format.tars.tar_names import TAR_SUFFIX, digest_ending, is_plain_tar, without_suffix
from headrace.format.tensors.outputs import outputs_of
from headrace.format.typed_json import json_value
from headrace.stores.refetch import read_sound
from headrace.stores.regular_files import oddity
from headrace.stores.storage import Storage

_MARK = b'"headrace_index"'  # in the header of every index that Headrace writes
_OTHER_SUFFIX = ".headrace.idx"


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index beside a tar, and the path of its file."""

    path: str
    index: ShardIndex


def parse_index(blob: bytes, name: str) -> ShardIndex:
    """The index in the bytes of an `.idx` file; its arrays are read-only views of `blob`.

    Raises:
        FormatError: not an index, cut off or damaged, of a newer format, or it contradicts itself.
    """
    arrays, metadata = tables.unpack(blob, name)
    if metadata.get("headrace_index") != str(FORMAT_VERSION):
        found = metadata.get("headrace_index", "none")
        raise FormatError(f"{name}: index format {found}, this version reads {FORMAT_VERSION}; rebuild the index")
    notes = {key.removeprefix(NOTE_PREFIX): text for key, text in metadata.items() if key.startswith(NOTE_PREFIX)}
    try:
        index = ShardIndex(
            shard=metadata["shard"],
            num_bytes=int(metadata["num_bytes"]),
            sha256=metadata["sha256"],
            input_digest=metadata["input_digest"],
            fields=tuple(metadata["fields"].split("\n")) if metadata["fields"] else (),
            outputs=outputs_of(json_value(metadata["outputs"]), name),
            audio_fields=tuple(metadata["audio_fields"].split("\n")) if "audio_fields" in metadata else (),
            audio_facts=arrays.get(AUDIO_COLUMN),
            seeks=SeekTable(arrays[GRID], arrays[PLACES]) if GRID in arrays else None,
            notes=notes,
            **{column: arrays[column] for column in COLUMNS},
        )
    except (KeyError, ValueError) as error:
        raise FormatError(f"{name}: an incomplete index ({error!r}); {tables.WAY_OUT}") from error
    check_index(index, name)
    return index


def read_index(storage: Storage, shard: str) -> ShardIndex:
    """The index of a shard that Headrace built; read again if it arrives damaged from a store.

    Raises:
        NotFoundError: the index does not exist.
        FormatError: it is damaged, or another tool's file has its name.
    """
    index = read_sound(storage, index_name(shard), _parsed_own)
    if index.shard != shard.rpartition("/")[2]:
        raise FormatError(
            f"{storage.uri}/{index_name(shard)}: is the index of {index.shard}; remove it, and build again"
        )
    return index


def find_index(storage: Storage, shard: str) -> IndexFile | None:
    """The index beside a tar of any writer; None without an index, and for compressed tars, which never have one.

    Raises:
        FormatError: it is damaged.
    """
    if not is_plain_tar(shard):
        return None
    for path in (index_name(shard), other_name(shard)):
        if (blob := _content(storage, path)) is None:
            return None
        if is_index(blob):
            return IndexFile(path, read_sound(storage, path, parse_index, blob))
    return None


def is_outdated(storage: Storage, shard: str, found: IndexFile) -> bool:
    """Whether a local tar was written after its index: tars are padded, so a changed one may have the same size.

    A tar whose name holds the digest of the index is not outdated, whichever of the two a copy wrote first.
    """
    sha256 = found.index.sha256
    if sha256 and without_suffix(shard).endswith(digest_ending(sha256)):
        return False
    tar, beside = storage.local_path(shard), storage.local_path(found.path)
    if tar is None or beside is None:
        return False
    storage.stat(shard)  # raises a clear error for a broken link
    return tar.stat().st_mtime_ns > beside.stat().st_mtime_ns


def write_index(storage: Storage, shard: str, index: ShardIndex) -> None:
    """Write the index beside a tar of any writer: `X.idx`, or `X.headrace.idx` if `X.idx` is another tool's file.

    Raises:
        FormatError: both names are taken by other tools' files.
    """
    first, second = index_name(shard), other_name(shard)
    for path in (first, second):
        if (blob := _content(storage, path)) is None or is_index(blob):
            storage.write(path, index.to_bytes())
            if path == first:
                _delete_if_index(storage, second)
            return
    raise FormatError(f"{storage.uri}/{second}: is not an index of Headrace; move it away, and index again")


def is_index(blob: bytes) -> bool:
    """Whether a file is an index of Headrace, sound or damaged; one whose mark is damaged counts as another tool's."""
    return _MARK in blob


def is_index_file(storage: Storage, path: str) -> bool:
    """Whether the file at `path` exists and is an index of Headrace."""
    return is_index(_content(storage, path) or b"")


def _delete_if_index(storage: Storage, path: str) -> None:
    if is_index_file(storage, path):
        storage.delete(path)


def _parsed_own(blob: bytes, name: str) -> ShardIndex:
    if blob and not is_index(blob):
        raise FormatError(
            f"{name}: not an index of Headrace, though this name is reserved for the index in an output. "
            "`headrace verify` says whether the stored file is one; if not, move the file away and build again, which "
            "writes the index"
        )
    return parse_index(blob, name)


def other_name(shard: str) -> str:
    """File name of the index beside a tar whose first name is taken by another tool's file."""
    return shard.removesuffix(TAR_SUFFIX) + _OTHER_SUFFIX


def _content(storage: Storage, path: str) -> bytes | None:
    """Content of a file; empty for a folder, a pipe or the like; None if nothing has this name."""
    try:
        return storage.read(path)
    except StorageError as error:
        local = storage.local_path(path)
        if local is not None and oddity(local) is not None:
            return b""
        if isinstance(error, NotFoundError):
            return None
        raise
