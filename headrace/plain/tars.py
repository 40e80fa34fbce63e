"""Reads the tars of a WebDataset from front to end as raw samples, and checks them on the way.

A shard is opened and unpacked, its files are grouped by webdataset's rules, and missing data is detected by the
end-of-archive mark, the number of samples and the names. Fields are not decoded here.
"""

import contextlib
import functools
import tarfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, BinaryIO, Self, TypeAlias, cast

from headrace.checksums import crc32
from headrace.errors import FormatError, HeadraceError, IntegrityError, NotFoundError, SampleCountError, shard_gone
from headrace.format.indexes.audio_fields import stated_audio_fields
from headrace.format.indexes.index import ShardIndex
from headrace.format.indexes.index_entries import apart_fault
from headrace.format.indexes.indexing import naming_of
from headrace.format.tars.member_names import JSON_FIELD, KeyAt, Naming, audio_field, check_fields, split_name
from headrace.format.tars.tar import GIT_LFS, TarHeader, check_end, check_member, payload
from headrace.format.tars.tar_members import Member, MemberFinder
from headrace.format.tars.unpacking import opened_tar, unpacked_stream
from headrace.locate.shard_list import LocatedShard
from headrace.stores.refetch import DAMAGED_IN_STORE, is_local, say, sources, times
from headrace.streaming.batches.json_texts import parsed
from headrace.streaming.samples.fields import AUDIO_NAMES

RawSample: TypeAlias = dict[str, Any]
"""A sample as webdataset groups it: `__key__`, `__url__`, the bytes of each field, and names of audio fields."""

_REST_BYTES = 1 << 20
_DAMAGED = "damaged; copy the shard again, or run `headrace index` if it was changed on purpose"


def raw_samples(shards: Iterator[LocatedShard], key_at: KeyAt = KeyAt.FIRST_DOT) -> Iterator[RawSample]:
    """The samples of these shards, each shard checked as it ends.

    Fields are compared with the CRC-32 in the index beside the shard, if there is one that is not older than the shard.
    A shard of a store that arrives damaged is downloaded again, past all caches, and continued behind the samples that
    were delivered.

    Args:
        shards: the shards to read.
        key_at: where keys end.

    Raises:
        FormatError: a shard is not a tar, cut off, damaged or not a WebDataset, or the files of a sample look like
            several samples.
        IntegrityError: a shard holds fewer or more samples than `sizes.json` says, a compressed shard is cut off or
            damaged, or a field is damaged.
        NotFoundError: a shard is not there.
    """
    for shard in shards:
        if shard.storage is None or is_local(shard.storage):
            yield from _translated(shard, key_at, shard.current_index())
        else:
            yield from _downloaded(shard, key_at)


def _downloaded(shard: LocatedShard, key_at: KeyAt) -> Iterator[RawSample]:
    """The samples of a shard in a store, which is read again from its start if it arrives damaged."""
    assert shard.storage is not None
    index = shard.current_index()
    num_delivered, attempts, last = 0, 0, None
    for source in sources(shard.storage):
        if last is not None and attempts == 1:
            say(shard.url, str(last))
        attempts += 1
        try:
            for number, sample in enumerate(_translated(replace(shard, storage=source), key_at, index)):
                if number == num_delivered:
                    num_delivered += 1
                    yield sample
        except SampleCountError:
            raise
        except (FormatError, IntegrityError) as error:
            last = error
        else:
            return
    assert last is not None
    try:
        raise type(last)(f"{last} ({times(attempts)})") from last.__cause__
    finally:
        del last  # it holds this frame, which would hold it


def _translated(shard: LocatedShard, key_at: KeyAt, index: ShardIndex | None) -> Iterator[RawSample]:
    """The samples of a shard once, with errors of the family of Headrace."""
    try:
        yield from _samples_of(shard, key_at, index)
    except HeadraceError:
        raise
    except Exception as error:  # noqa: BLE001 - webdataset and tarfile raise many kinds; users get one, with the shard
        said = str(error.args[0] if error.args else error)
        has_secret = shard.name != shard.url and shard.name in said  # webdataset names the command with the signed URL
        raise FormatError(
            f"{shard.url}: cannot be read as a WebDataset: {said.replace(shard.name, shard.url)}; fetch or build it "
            "again"
        ) from (None if has_secret else error)


def _samples_of(shard: LocatedShard, key_at: KeyAt, index: ShardIndex | None) -> Iterator[RawSample]:
    from webdataset.tariterators import group_by_keys

    seen: set[str] = set()
    naming = functools.cache(lambda: naming_of(KeyAt.FIRST_DOT, shard.index()))  # read once, and only for dotted names
    with _opened(shard) as stream, _LinkedFiles(shard) as linked:
        for sample in group_by_keys(_files(stream, linked, key_at), lambda name: split_name(name, key_at)):
            _check_names(shard.url, sample, seen, naming)
            if index is not None:
                _check_sums(shard, sample, index)
            seen.add(sample["__key__"])
            yield sample
    if shard.num_samples is not None and len(seen) != shard.num_samples:
        raise SampleCountError(
            f"{shard.url}: holds {len(seen)} samples, sizes.json says {shard.num_samples}: fetch or build it again, or "
            "run `headrace index` if it was changed on purpose"
        )


@contextlib.contextmanager
def _opened(shard: LocatedShard) -> Iterator[BinaryIO]:
    """The bytes of a shard, decompressed."""
    if shard.storage is None:
        import webdataset as wds

        with wds.gopen(shard.name) as stream:
            yield stream
        return
    with _found(shard) as file:
        stream = unpacked_stream(file, shard.url)
        yield stream
        while stream is not file and stream.read(_REST_BYTES):  # to its end, where a missing rest is noticed
            pass


def _found(shard: LocatedShard) -> BinaryIO:
    assert shard.storage is not None
    try:
        return shard.storage.open(shard.name)
    except NotFoundError as error:
        if shard.is_built:
            raise shard_gone(shard.url) from error
        raise NotFoundError(
            f"{shard.url}: the shard is not there, though it is listed: fetch or build it again; if it was removed on "
            "purpose, `headrace index` writes a sizes.json without it"
        ) from error


class _Header(TarHeader):
    """A header that must be complete: tarfile takes a damaged or missing one for the end of the archive."""

    @classmethod
    def frombuf(cls, buf: bytes | bytearray, encoding: str, errors: str) -> Self:
        if len(buf) < tarfile.BLOCKSIZE and not buf.startswith(GIT_LFS):
            raise tarfile.ReadError("cut off: no end-of-archive mark at its end")
        try:
            return super().frombuf(buf, encoding, errors)
        except tarfile.HeaderError as error:
            if any(buf):
                raise tarfile.ReadError(
                    "damaged, or not a tar: neither a file nor the end of the archive follows"
                ) from error
            raise  # the end


class _LinkedFiles(contextlib.ExitStack):
    """The files of a shard that hard links lead to. They were passed already, so the shard is opened a second time."""

    def __init__(self, shard: LocatedShard) -> None:
        super().__init__()
        self.shard = shard
        self._tar: BinaryIO | None = None

    def payload(self, member: Member) -> bytes:
        """The bytes of a hard link.

        Raises:
            FormatError: the shard is a stream of webdataset's own openers, which cannot be read twice.
        """
        if self.shard.storage is None:
            raise FormatError(
                f"{self.shard.url}: {member.name!r} is a hard link, whose bytes this stream has already passed: pack "
                "the tar again with tar --hard-dereference, or name it by a path or an address of a store"
            )
        if self._tar is None:
            self._tar = self.enter_context(opened_tar(self.shard.storage, self.shard.name)).file
        return payload(self._tar, (member.start, member.stop))


def _files(stream: BinaryIO, linked: _LinkedFiles, key_at: KeyAt) -> Iterator[dict[str, Any]]:
    """The files that belong to samples, in the form that webdataset's grouping takes.

    Raises:
        tarfile.TarError: not a tar, damaged, or without an end-of-archive mark.
        FormatError: a field is a link without its file, a device or the like.
    """
    finder, url = MemberFinder(), linked.shard.url
    with tarfile.open(fileobj=stream, mode="r|*", tarinfo=_Header) as archive:
        for info in archive:
            check_member(info)
            member = finder.member(info)
            if member is not None and split_name(member.name, key_at) is not None:
                if member.fault:
                    raise FormatError(f"{url}: {member.fault}")
                plain = archive.extractfile(info) if info.isreg() else None
                content = linked.payload(member) if plain is None else plain.read()
                yield {"fname": member.name, "data": content, "__url__": url}
            archive.members = []  # type: ignore[attr-defined] # tarfile keeps all members, for lookups by name
        check_end(cast("BinaryIO", archive.fileobj).read)


def _check_sums(shard: LocatedShard, sample: RawSample, index: ShardIndex) -> None:
    """Compare the fields of a sample with the CRC-32 in the index; a key that it lacks is not checked."""
    number = index.find(sample["__key__"])
    if number is None:
        return
    for name, crc in zip(index.fields, index.row(number).crc32, strict=True):
        if crc >= 0 and name in sample and crc32(sample[name]) != crc:
            fault = _DAMAGED if shard.storage is None or is_local(shard.storage) else DAMAGED_IN_STORE
            raise IntegrityError(
                f"{shard.url}: the CRC-32 of {sample['__key__']}.{name} is not that in the index: {fault}"
            )


def _check_names(url: str, sample: RawSample, seen: set[str], naming: Callable[[], Naming]) -> None:
    """Note the named audio fields, and raise `FormatError` for names that webdataset would split or merge silently."""
    key = sample["__key__"]
    fields = [name for name in sample if not name.startswith("__")]
    if key in seen:
        raise FormatError(apart_fault(url, key, fields[0]))
    if any("." in name for name in fields):
        found = naming()
        if not found.audio_fields and (stated := _stated_audio_fields(sample, fields)):
            found = replace(found, audio_fields=stated)
        check_fields(url, key, fields, found.all_declared)
        if found.audio_fields:
            sample[AUDIO_NAMES] = found.audio_fields


def _stated_audio_fields(sample: RawSample, fields: Sequence[str]) -> tuple[str, ...]:
    """The named audio fields that the JSON of a sample lists, for a shard of Headrace without its index."""
    if JSON_FIELD not in fields or not any("." in name and audio_field([name]) for name in fields):
        return ()
    with contextlib.suppress(ValueError):  # decoding the sample raises the error
        return stated_audio_fields(parsed(sample[JSON_FIELD]), fields)
    return ()
