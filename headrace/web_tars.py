"""The tars of a WebDataset as raw samples, read once from front to end and checked while they pass.

Owns opening and unpacking a shard, grouping its files by webdataset's rules, and the proof that nothing is missing: the
end-of-archive mark, the number of samples, the names. It decodes no field and knows neither ranks nor workers.
"""

import contextlib
import gzip
import re
import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, TypeAlias, cast

import zstandard

from headrace.errors import FormatError, HeadraceError, IntegrityError, NotFoundError
from headrace.shardlists import Shard

RawSample: TypeAlias = dict[str, Any]
"""What webdataset's grouping gives: `__key__`, `__url__` and the bytes of each field."""

_META_MEMBER = re.compile(r"__[^/]*__($|/)")  # webdataset's own notes, no samples


def raw_samples(shards: Iterator[Shard]) -> Iterator[RawSample]:
    """The samples of these shards, each shard checked as it ends.

    Raises:
        FormatError: a shard is no tar, cut off, damaged or not a WebDataset.
        IntegrityError: it holds fewer or more samples than `sizes.json` says.
        NotFoundError: it is not there.
    """
    for shard in shards:
        try:
            yield from _samples_of(shard)
        except HeadraceError:
            raise
        except Exception as error:  # webdataset and tarfile raise many kinds; a consumer needs one, with the shard
            raise FormatError(
                f"{shard.url}: cannot be read as a WebDataset: {error.args[0] if error.args else error}; "
                "fetch or build it again"
            ) from error


def _samples_of(shard: Shard) -> Iterator[RawSample]:
    from webdataset.tariterators import group_by_keys

    seen: set[str] = set()
    with _opened(shard) as stream:
        for sample in group_by_keys(_files(stream, shard.url)):
            _check_names(sample, seen)
            seen.add(sample["__key__"])
            yield sample
    if shard.num_samples is not None and len(seen) != shard.num_samples:
        raise IntegrityError(
            f"{shard.url}: {len(seen)} samples came, sizes.json says {shard.num_samples}: fetch or build it again, or "
            "run `headrace index` if it was changed on purpose"
        )


@contextlib.contextmanager
def _opened(shard: Shard) -> Iterator[BinaryIO]:
    """The shard's bytes, unpacked: tarfile would read only the first of several compressed members."""
    if shard.storage is None:
        import webdataset as wds

        with wds.gopen(shard.name) as stream:
            yield stream
        return
    with _found(shard) as file:
        if shard.name.endswith((".zst", ".zstd")):
            yield cast("BinaryIO", zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True))
        elif shard.name.endswith((".gz", ".tgz")):
            yield cast("BinaryIO", gzip.GzipFile(fileobj=file))
        else:
            yield file


def _found(shard: Shard) -> BinaryIO:
    assert shard.storage is not None
    try:
        return shard.storage.open(shard.name)
    except NotFoundError as error:
        raise NotFoundError(
            f"{shard.url}: the shard is not there, though it is listed: fetch or build it again; if it was removed on "
            "purpose, `headrace index` writes a sizes.json without it"
        ) from error


class _Header(tarfile.TarInfo):
    """A header that must be whole: tarfile takes a damaged one, or none, for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> "_Header":
        if len(buf) < tarfile.BLOCKSIZE:
            raise tarfile.ReadError("cut off: no end-of-archive mark at its end")
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise tarfile.ReadError(
                    "damaged, or no tar: neither a file of it nor its end where one must be"
                ) from error
            raise  # the end


def _files(stream: BinaryIO, url: str) -> Iterator[dict[str, Any]]:
    """The plain files as webdataset's grouping takes them.

    Raises:
        tarfile.TarError: no tar, damaged, or over before the end-of-archive mark.
    """
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=_Header) as archive:
        for member in archive:
            if member.isreg() and not _META_MEMBER.match(member.name):
                content = cast("BinaryIO", archive.extractfile(member)).read()
                yield {"fname": member.name, "data": content, "__url__": url}
            archive.members = []  # type: ignore[attr-defined] # it keeps all, for whoever asks for one by name


def _check_names(sample: RawSample, seen: set[str]) -> None:
    """Refuse what webdataset would split or merge without a word."""
    key, url = sample["__key__"], sample["__url__"]
    fields = [name for name in sample if not name.startswith("__")]
    if key in seen:
        raise FormatError(f"{url}: the files of sample {key!r} are not neighbours; write the shard again, sorted")
    if fields and all("." in name for name in fields):
        raise FormatError(
            f"{url}: {key}.{fields[0]} has a dot too many: the key ends at the first dot, so this is field "
            f"{fields[0]!r} of sample {key!r}; write the shard again with underscores in its keys"
        )
