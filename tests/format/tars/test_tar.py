import hashlib
import io
import re
import tarfile
import zlib

import pytest
import webdataset
from hypothesis import example, given
from hypothesis import strategies as st

from headrace.errors import FormatError
from headrace.format.tars import tar
from headrace.format.tars.tar import (
    Member,
    TarHeader,
    TarWriter,
    check_end,
    check_member,
    crc32_of,
    member_header,
    read_members,
    sha256_of,
)

NAMES = st.from_regex(r"[A-Za-z0-9_-]{1,60}(/[a-z]{1,5})?\.(flac|json|pth)", fullmatch=True)
PAYLOADS = st.binary(max_size=1500)


def written(members):
    file = io.BytesIO()
    writer = TarWriter(file)
    spans = [writer.add(name, payload, len(payload)) for name, payload in members]
    digest = writer.finish()
    assert writer.num_bytes == len(file.getvalue())
    return file, spans, digest


@pytest.mark.medium
@given(st.lists(st.tuples(NAMES, PAYLOADS), max_size=8))
def test_a_written_tar_is_read_by_us_and_by_tarfile(members):
    file, spans, digest = written(members)
    blob = file.getvalue()
    assert list(read_members(file, "x.tar")) == [
        Member(name, span.start, span.stop) for (name, _), span in zip(members, spans, strict=True)
    ]
    assert [blob[start:stop] for start, stop, _ in spans] == [payload for _, payload in members]
    assert [crc32 for _, _, crc32 in spans] == [zlib.crc32(payload) for _, payload in members]
    assert [crc32_of(file, span[:2]) for span in spans] == [crc32 for _, _, crc32 in spans]
    with tarfile.open(fileobj=io.BytesIO(blob)) as archive:
        assert [(info.name, archive.extractfile(info).read()) for info in archive] == members
    assert digest == hashlib.sha256(blob).hexdigest()
    assert sha256_of(io.BytesIO(blob)) == digest


@given(st.lists(st.tuples(NAMES, PAYLOADS), min_size=1, max_size=4))
def test_same_payloads_give_the_same_bytes(members):
    from_files = io.BytesIO()
    writer = TarWriter(from_files)
    for name, payload in members:
        writer.add(name, io.BytesIO(payload), len(payload))
    writer.finish()
    assert from_files.getvalue() == written(members)[0].getvalue()


def test_bytes_are_the_same_on_every_machine():
    """A change of this digest would rename every shard of every dataset."""
    _, _, digest = written([("clip-1.flac", bytes(1000)), ("clip-1.json", b'{"a": 1}')])
    assert digest == "c130daf5683695c41b78857dfec8204b1afa178711b02feb93f7711ad082e103"


def test_bytes_equal_those_of_webdatasets_writer_with_a_fixed_time():
    theirs = io.BytesIO()
    with webdataset.TarWriter(theirs, mtime=0, encoder=False) as sink:
        sink.write({"__key__": "a", "flac": b"1" * 700, "json": b"{}"})
    ours, _, _ = written([("a.flac", b"1" * 700), ("a.json", b"{}")])
    members = [(m.name, theirs.getvalue()[m.start : m.stop]) for m in read_members(theirs, "theirs")]
    assert members == [(m.name, ours.getvalue()[m.start : m.stop]) for m in read_members(ours, "ours")]


def test_a_payload_of_another_length_than_declared_is_an_error():
    with pytest.raises(FormatError, match=r"a\.flac: 5 bytes expected, 3 written"):
        TarWriter(io.BytesIO()).add("a.flac", b"abc", 5)


@given(
    st.text(st.characters(codec="utf-8", exclude_characters="\0/"), min_size=1, max_size=25),
    st.integers(0, (8 << 30) - 1),
)
def test_headers_are_read_correctly_by_tarfile(name, num_bytes):
    header = member_header(name, num_bytes)
    assert len(header) == 512
    found = tarfile.TarInfo.frombuf(header, "utf-8", "strict")  # verifies the checksum
    assert (found.name, found.size) == (name, num_bytes)
    assert (found.mode, found.uid, found.gid, found.mtime, found.uname, found.gname) == (0o444, 0, 0, 0, "", "")


def test_names_and_sizes_that_do_not_fit_a_plain_header_are_an_error():
    member_header("k" * 95 + ".flac", 1)
    with pytest.raises(FormatError, match="longer than 100 bytes"):
        member_header("k" * 96 + ".flac", 1)
    with pytest.raises(FormatError, match="longer than 100 bytes"):
        member_header("ü" * 50 + ".flac", 1)
    with pytest.raises(FormatError, match="segment_seconds"):
        member_header("a.flac", 8 << 30)


@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_tars_of_every_format_are_read(form):
    file = io.BytesIO()
    names = ["short.json", "folder/clip.flac"]
    if form != tarfile.USTAR_FORMAT:
        names.append("long/" * 30 + "name.flac")
    with tarfile.open(fileobj=file, mode="w", format=form) as archive:
        folder = tarfile.TarInfo("folder")
        folder.type = tarfile.DIRTYPE
        archive.addfile(folder)
        for name in names:
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(name), 1.5
            archive.addfile(info, io.BytesIO(name.encode()))
        link = tarfile.TarInfo("link.flac")
        link.type, link.linkname = tarfile.SYMTYPE, "short.json"
        archive.addfile(link)
    *members, last = read_members(file, "x.tar")
    assert (last.name, last.fault[:30]) == ("link.flac", "'link.flac' is a symbolic link")
    assert [member.name for member in members] == names
    assert [file.getvalue()[m.start : m.stop].decode() for m in members] == names


def test_a_tar_truncated_anywhere_is_an_error():
    """This includes cuts between two members, which tarfile and webdataset accept and silently lose samples."""
    blob = written([(f"k{number}.flac", bytes([number]) * 700) for number in range(3)])[0].getvalue()
    end = len(blob) - 1024
    for length in [*range(1, end + 512, 256), end - 512, end, end + 100]:
        with pytest.raises(FormatError, match=r"x\.tar"):
            list(read_members(io.BytesIO(blob[:length]), "x.tar"))
    assert len(list(read_members(io.BytesIO(blob[: end + 512]), "x.tar"))) == 3
    with pytest.raises(FormatError):
        list(read_members(io.BytesIO(b""), "x.tar"))


def test_a_damaged_header_is_an_error_and_not_the_end_of_the_tar():
    blob = bytearray(written([(f"k{number}.flac", b"1" * 600) for number in range(3)])[0].getvalue())
    blob[512 + 1024 + 3] ^= 1
    with pytest.raises(FormatError, match="byte 1536"):
        list(read_members(io.BytesIO(bytes(blob)), "x.tar"))


@pytest.mark.parametrize("blob", [b"RIFF" + bytes(2000), b"x" * 512, bytes(range(256)) * 8])
def test_a_file_that_is_not_a_tar_is_reported_as_such(blob):
    with pytest.raises(FormatError, match=r"x\.tar"):
        list(read_members(io.BytesIO(blob), "x.tar"))


def test_an_empty_archive_has_no_members():
    assert list(read_members(written([])[0], "x.tar")) == []


def header_of(size: bytes, kind: bytes = b"0") -> bytes:
    """A header whose size field has these bytes."""
    plain = bytearray(member_header("a.flac", 0))
    plain[124:136], plain[156:157], plain[148:156] = size, kind, b" " * 8
    plain[148:156] = b"%06o\0 " % sum(plain)
    return bytes(plain)


def test_a_header_of_a_negative_size_is_an_error():
    with pytest.raises(tarfile.ReadError, match=r"'a\.flac' has a size of -1 bytes"):
        TarHeader.frombuf(header_of(b"\xff" * 12), "utf-8", "strict")
    info = tarfile.TarInfo("a.flac")
    check_member(info)
    info.size = -1  # as PAX records may say
    with pytest.raises(tarfile.ReadError, match=r"'a\.flac' has a size of -1 bytes"):
        check_member(info)


def test_a_name_or_record_may_have_a_mebibyte_and_no_more():
    assert TarHeader.frombuf(header_of(b"%011o\0" % (1 << 20), tarfile.XHDTYPE), "utf-8", "strict").size == 1 << 20
    with pytest.raises(tarfile.ReadError, match="a name or record of 1048577 bytes, at most 1048576 expected"):
        TarHeader.frombuf(header_of(b"%011o\0" % ((1 << 20) + 1), tarfile.XHDTYPE), "utf-8", "strict")


@pytest.mark.parametrize(("empty_blocks", "is_found"), [(0, True), (32767, True), (32768, False)])
def test_another_archive_is_looked_for_within_16_mebibytes(empty_blocks, is_found):
    blocks = iter([bytes(512)] * empty_blocks + [member_header("b.flac", 0)] * 3)
    if is_found:
        with pytest.raises(tarfile.ReadError, match=r"another archive follows its end, with 'b\.flac'"):
            check_end(lambda _: next(blocks))
    else:
        check_end(lambda _: next(blocks))
        assert len(list(blocks)) == 3


@pytest.mark.parametrize(
    ("size", "length", "message"),
    [
        (700, 1211, "cut off: a member ends at byte 1212, the file at 1211; fetch it again"),
        (700, 1536, "cut off: no end-of-archive mark at its end, byte 1536; fetch it again"),
        (1024, 1535, "cut off: a member ends at byte 1536, the file at 1535; fetch it again"),
        (1024, 1536, "cut off: no end-of-archive mark at its end, byte 1536; fetch it again"),
    ],
)
def test_a_cut_says_where_it_is(size, length, message):
    blob = written([("a.flac", bytes(size))])[0].getvalue()
    with pytest.raises(FormatError, match=message):
        list(read_members(io.BytesIO(blob[:length]), "x.tar"))


def test_members_behind_a_damaged_header_are_not_another_archive():
    blob = bytearray(written([(f"k{number}.flac", b"") for number in range(3)])[0].getvalue())
    blob[512 + 3] ^= 1
    with pytest.raises(FormatError, match=r"damaged: neither a member nor the end begins at byte 512"):
        list(read_members(io.BytesIO(bytes(blob)), "x.tar"))


def test_a_range_is_read_from_anywhere():
    file = io.BytesIO(b"abcdef")
    assert tar.payload(file, (2, 5)) == b"cde"
    assert crc32_of(file, (2, 5)) == zlib.crc32(b"cde")
    assert crc32_of(file, (4, 9)) == zlib.crc32(b"ef")


def read_or_error(blob):
    try:
        return list(read_members(io.BytesIO(blob), "x.tar"))
    except FormatError:
        return "error"


def test_all_headers_that_we_write_take_the_fast_way():
    blob = written([("a.flac", b"1" * 700), ("b/c d.json", b"{}")])[0].getvalue()
    assert [member.name for member in tar._plain_members(io.BytesIO(blob), len(blob))] == ["a.flac", "b/c d.json"]


@given(
    st.integers(0, 2),
    st.lists(st.tuples(st.integers(0, 511), st.sampled_from(b"\0 017/9aL\xff")), max_size=4),
    st.booleans(),
)
def test_changed_headers_are_read_as_tarfile_reads_them(number, changes, is_sum_valid):
    """The fast way of `read_members` never finds what tarfile alone does not find."""
    blob = bytearray(written([(f"k{i}.flac", bytes([i]) * 700) for i in range(3)])[0].getvalue())
    header = blob[number * 1536 : number * 1536 + 512]
    for place, byte in changes:
        header[place] = byte
    if is_sum_valid:
        header[148:156] = b"%06o\0 " % (sum(header[:148]) + sum(header[156:]) + 256)
    blob[number * 1536 : number * 1536 + 512] = header
    fast = read_or_error(bytes(blob))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tar, "_PLAIN_HEADER", re.compile(b"(?!)"))
        assert fast == read_or_error(bytes(blob))


@given(st.binary(min_size=512, max_size=512))
@example(bytes(512))
@example(b"\xff" * 512)
def test_the_sum_of_a_header_is_the_sum_of_its_bytes(header):
    assert tar._sum(header) == sum(header)
