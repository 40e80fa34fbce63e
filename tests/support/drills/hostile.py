"""Hostile tars: they try to run code, write outside of their folder, exhaust memory, hang, or be misread."""

import functools
import io
import json
import pickle
import random
import struct
import subprocess
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import torch

from headrace.format.indexes.indexing import index_tar
from tests.support.streaming.corpus import Clip

_GIBIBYTE = 1 << 30


def header(name: str, size: int | bytes, kind: bytes = b"0", link: str = "", prefix: bytes = b"") -> bytes:
    """A tar header with any values; `size` may be the twelve bytes of the field."""
    field = size if isinstance(size, bytes) else b"%011o\0" % size
    raw = b"".join(
        [
            name.encode()[:100].ljust(100, b"\0"),
            b"0000644\0" + 2 * b"0000000\0",
            field,
            b"00000000000\0",
            b" " * 8,
            kind,
            link.encode()[:100].ljust(100, b"\0"),
            b"ustar\x0000" + bytes(64) + b"0000000\0" * 2,
            prefix.ljust(155, b"\0"),
        ]
    ).ljust(512, b"\0")
    return raw[:148] + b"%06o\0 " % sum(raw) + raw[156:]


def member(name: str, content: bytes, kind: bytes = b"0", size: int | bytes | None = None, link: str = "") -> bytes:
    """A header and its content; `size` is the size in the header."""
    said = len(content) if size is None else size
    return header(name, said, kind, link) + content + bytes(-len(content) % 512)


def wide(size: int) -> bytes:
    """A size in base 256, as GNU tar writes what does not fit; may be negative."""
    return bytes([0x80 if size >= 0 else 0xFF]) + (size % (1 << 88)).to_bytes(11, "big")


def sound(number: int) -> bytes:
    """The members of a valid sample."""
    clip = Clip(number, 300)
    return member(f"{clip.key}.flac", clip.flac()) + member(f"{clip.key}.json", clip.json())


def tar(*members: bytes) -> bytes:
    """The archive."""
    return b"".join(members) + bytes(1024)


class _Evil:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function: Callable[..., object], *args: object) -> None:
        self._call = function, args

    def __reduce__(self):
        return self._call


def saved(content: object) -> bytes:
    """Bytes that torch.save writes."""
    file = io.BytesIO()
    torch.save(content, file)
    return file.getvalue()


def repacked(blob: bytes, change: Callable[[str, bytes], tuple[bytes, int]]) -> bytes:
    """A zip with other contents, and other compression, of its members."""
    file = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(blob)) as old, zipfile.ZipFile(file, "w") as new:
        for info in old.infolist():
            content, compression = change(info.filename, old.read(info))
            new.writestr(zipfile.ZipInfo(info.filename), content, compression)
    return file.getvalue()


LATENTS = {"encoder_hidden": torch.arange(12.0).reshape(3, 4), "encoder_length": 3}


def _with_pickle(blob: bytes) -> bytes:
    """A `.pth` file of latents with another pickle inside."""
    return repacked(saved(LATENTS), lambda name, old: (blob if name.endswith("data.pkl") else old, zipfile.ZIP_STORED))


@functools.cache  # a gibibyte takes three seconds
def _inflating(num_bytes: int) -> bytes:
    """A `.pth` file of `num_bytes` zero bytes of latents, deflated."""
    rows = num_bytes // 16

    def longer(old: bytes) -> bytes:
        return old.replace(b"K\x0c", b"J" + struct.pack("<i", rows * 4)).replace(
            b"K\x03", b"J" + struct.pack("<i", rows)
        )

    return repacked(
        saved(LATENTS),
        lambda name, old: (
            (bytes(num_bytes), zipfile.ZIP_DEFLATED)
            if name.endswith("data/0")
            else (longer(old) if name.endswith("data.pkl") else old, zipfile.ZIP_STORED)
        ),
    )


def _deep_json(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


def _flac_that_says(num_frames: int, chance: random.Random) -> bytes:
    blob = bytearray(Clip(1, 300).flac())
    said = int.from_bytes(blob[18:26], "big") >> 36 << 36 | num_frames
    blob[18:26] = said.to_bytes(8, "big")
    if chance.random() < 0.5:
        blob[10:16] = bytes([255] * chance.choice([3, 6])).rjust(6, b"\0")
    return bytes(blob)


def _sparse(name: str, real: int) -> bytes:
    """An old GNU sparse member of four stored bytes at the end of `real` zeros."""
    raw = bytearray(header(name, 4, b"S"))
    raw[257:265] = b"ustar  \0"
    raw[386:410] = b"%011o\0" % max(0, real - 4) + b"%011o\0" % 4
    raw[483:495] = b"%011o\0" % real if real < 8 * _GIBIBYTE else wide(real)
    raw[148:156] = b" " * 8
    raw[148:156] = b"%06o\0 " % sum(raw)
    return bytes(raw) + b"abcd" + bytes(508)


def _pax(**records: str) -> bytes:
    lines = b""
    for name, value in records.items():
        body = f" {name.replace('__', '.')}={value}\n".encode()
        length = len(body) + 1
        while len(str(length)) + len(body) != length:
            length += 1
        lines += str(length).encode() + body
    return member("pax", lines, b"x")


def tars(canary: Path) -> dict[str, Callable[[random.Random], bytes]]:
    """Hostile archives by name. Code in them would create the file `canary`; paths in them lead beside it."""
    touch, flac, text = f"touch {canary}", Clip(1, 300).flac(), Clip(1, 300).json()
    write, latents = f"open({str(canary)!r}, 'w')", LATENTS
    sound_wav = b"WAVEfmt \x10\0\0\0\1\0\1\0@\x1f\0\0\x80>\0\0\2\0\x10\0data"
    beside = str(canary.with_name("beside"))
    one, more = sound(1), sound(2)

    def named(name: str) -> Callable[[random.Random], bytes]:
        return lambda _: tar(one, member(f"{name}.flac", flac), member(f"{name}.json", text))

    def pth(blob: bytes) -> Callable[[random.Random], bytes]:
        return lambda _: tar(member("a.pth", blob), member("a.json", text), member("b.pth", saved(LATENTS)))

    def inflating(num_bytes: int) -> Callable[[random.Random], bytes]:
        return lambda chance: pth(_inflating(num_bytes))(chance)  # noqa: PLW0108 - not before it is needed

    def linked(kind: bytes, target: str) -> Callable[[random.Random], bytes]:
        return lambda _: tar(one, member("x.flac", b"", kind, link=target), member("x.json", text))

    def sized(size: bytes | int, kind: bytes = b"0") -> Callable[[random.Random], bytes]:
        return lambda _: tar(one, member("x.flac", flac, kind, size), more)

    def in_json(blob: bytes) -> Callable[[random.Random], bytes]:
        return lambda _: tar(one, member("x.flac", flac), member("x.json", blob), more)

    return {
        "an absolute name": named(beside),
        "a name that climbs": named("../../beside"),
        "a name that climbs from a folder": named("a/../../../beside"),
        "a name of dots": named(".."),
        "a name with a NUL in its middle": lambda _: tar(one, header("a\0/../b.flac", len(flac)), more),
        "a name with a backslash": named("..\\..\\beside"),
        "a name with a newline": named("a\nb"),
        "a name that is an escape sequence": named("\x1b[2J\x1b]0;x\x07"),
        "a name that is no UTF-8": lambda _: tar(one, member("x.json", text).replace(b"x.json", b"\xff.json", 1)),
        "a symbolic link outside": linked(b"2", "/etc/passwd"),
        "a hard link outside": linked(b"1", "/etc/passwd"),
        "a hard link to itself": linked(b"1", "x.flac"),
        "a symbolic link in a loop": linked(b"2", "x.flac"),
        "a device": linked(b"3", ""),
        "a pipe": linked(b"6", ""),
        "a folder with a sample's name": linked(b"5", ""),
        "a kind that nobody knows": linked(b"Z", ""),
        "a size of a terabyte": sized(wide(1 << 40)),
        "a size of 2^80": sized(wide(1 << 80)),
        "a negative size": sized(wide(-512)),
        "a size that leads back": sized(wide(-2048)),
        "a size that is no number": sized(b"zzzzzzzzzzz\0"),
        "a size with a sign": sized(b"-0000001000\0"),
        "a size of eight gibibytes but one": sized(b"7" * 11 + b"\0"),
        "a long name of a terabyte": sized(wide(1 << 40), b"L"),
        "a long name of 2^80": sized(wide(1 << 80), b"L"),
        "a long link name of 2^62": sized(wide(1 << 62), b"K"),
        "a PAX header of a terabyte": sized(wide(1 << 40), b"x"),
        "a global PAX header of 2^80": sized(wide(1 << 80), b"g"),
        "long names without end": lambda c: tar(
            *[member("l", b"a" * 300, b"L") for _ in range(c.choice([50, 3000, 3000]))]
        ),
        "a PAX size of 2^70": lambda _: tar(_pax(size=str(1 << 70)), member("x.flac", flac)),
        "a negative PAX size": lambda _: tar(one, _pax(size="-1024"), member("x.flac", flac)),
        "a PAX size that leads back for ever": lambda _: tar(one, _pax(size="-1024"), member("ignored", b"1")),
        "a PAX size that is no number": lambda _: tar(one, _pax(size="nan"), member("x.flac", flac)),
        "a PAX name that climbs": lambda _: tar(one, _pax(path="../../beside.flac"), member("x.flac", flac)),
        "a PAX record longer than its header": lambda _: tar(member("p", b"999 path=x\n", b"x"), one),
        "a PAX record of length zero": lambda _: tar(member("p", b"0 path=x\n", b"x"), one),
        "a PAX sparse map of ones": lambda _: tar(_pax(GNU__sparse__map="0,1," * 5000 + "0,1"), member("x.cls", b"1")),
        "a PAX sparse file of a terabyte": lambda _: tar(
            one,
            _pax(GNU__sparse__major="1", GNU__sparse__minor="0", GNU__sparse__realsize=str(1 << 40)),
            member("x.flac", b"1\n0\n4\n".ljust(512, b"\0") + b"abcd"),
            more,
        ),
        "a sparse file of a terabyte": lambda _: tar(one, _sparse("x.flac", 1 << 40), more),
        "a sparse file of two gibibytes": lambda _: tar(one, _sparse("x.cls", 2 * _GIBIBYTE), more),
        "a sparse file of a kibibyte": lambda _: tar(one, _sparse("x.cls", 1024), more),
        "the same member twice": lambda _: tar(one, one),
        "a field twice": lambda _: tar(member("x.flac", flac), member("x.flac", Clip(3, 200).flac()), more),
        "fifty thousand empty members": lambda _: tar(*[header(f"{i}.cls", 0) for i in range(50_000)]),
        "no end": lambda _: tar(one, more)[:-1024],
        "nothing but an end": lambda _: bytes(10_240),
        "another archive behind the end": lambda _: tar(one) + tar(more),
        "a checksum that is wrong": lambda _: tar(one)[:-1024] + b"x" * 512 + bytes(1024),
        "a pickle that runs a command": pth(saved({"encoder_hidden": _Evil(subprocess.call, ["sh", "-c", touch])})),
        "a pickle that evaluates": pth(saved({"encoder_length": _Evil(eval, write)})),
        "a plain pickle that runs a command": pth(pickle.dumps(_Evil(subprocess.call, ["sh", "-c", touch]))),
        "a legacy pickle that runs a command": pth(
            pickle.dumps(0x1950A86A20F9469CFC6C, 2) + pickle.dumps(_Evil(subprocess.call, ["sh", "-c", touch]), 2)
        ),
        "a pickle nested in the zip that runs a command": pth(_with_pickle(pickle.dumps(_Evil(exec, write)))),
        "a deep pickle": pth(_with_pickle(b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b".")),
        "a pickle of a long integer": pth(
            _with_pickle(b"\x80\x02\x8b" + struct.pack("<i", 1 << 30) + b"\1" * 64 + b".")
        ),
        "a pickle with a long string that is not there": pth(
            _with_pickle(b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"a.")
        ),
        "a pickle with a memo of 2^31": pth(_with_pickle(b"\x80\x02}r\xff\xff\xff\x7f.")),
        "latents that inflate to a gibibyte": inflating(_GIBIBYTE),
        "latents that inflate to 64 mebibytes": inflating(1 << 26),
        "latents of stride zero, two gibibytes": pth(
            saved({"encoder_hidden": torch.zeros(1, 1).expand(1 << 26, 8), "encoder_length": 1 << 26})
        ),
        "latents of stride zero, a petabyte": pth(
            saved({"encoder_hidden": torch.zeros(1, 1).expand(1 << 45, 8), "encoder_length": 1 << 45})
        ),
        "latents of another length than they say": pth(saved(latents | {"encoder_length": 1 << 40})),
        "latents of negative length": pth(saved(latents | {"encoder_length": -3})),
        "latents of no width": pth(saved({"encoder_hidden": torch.zeros(1 << 40, 0), "encoder_length": 1 << 40})),
        "sparse latents": pth(
            saved(
                {
                    "encoder_hidden": torch.sparse_coo_tensor(size=(1 << 30, 1 << 30), check_invariants=False),
                    "encoder_length": 3,
                }
            )
        ),
        "complex latents": pth(
            saved({"encoder_hidden": torch.zeros(3, 4, dtype=torch.complex64), "encoder_length": 3})
        ),
        "meta latents": pth(saved({"encoder_hidden": torch.zeros(1 << 40, 8, device="meta"), "encoder_length": 3})),
        "JSON that is deep": in_json(_deep_json(200_000)),
        "JSON of a long number": in_json(b'{"a": ' + b"9" * 1_000_000 + b"}"),
        "JSON of a number beyond floats": in_json(b'{"a": 1e999999, "b": NaN, "c": -Infinity}'),
        "JSON that is no object": in_json(b"[1, 2]"),
        "JSON that is no UTF-8": in_json(b'{"a": "\xff"}'),
        "JSON with half a surrogate": in_json(b'{"a": "\\ud800"}'),
        "JSON of UTF-16": in_json(json.dumps({"a": 1}).encode("utf-16")),
        "JSON with our own words": in_json(b'{"headrace": {"refused": [1]}, "__key__": "../x", "audio": 1}'),
        "FLAC that says it has 2^36 frames": lambda c: tar(
            one, member("x.flac", _flac_that_says((1 << 36) - 1, c)), more
        ),
        "FLAC that says it has 2^31 frames": lambda c: tar(one, member("x.flac", _flac_that_says(1 << 31, c)), more),
        "FLAC with a metadata block of 16 mebibytes": lambda _: tar(
            one, member("x.flac", flac[:42].replace(b"fLaC\x80", b"fLaC\0") + b"\x84\xff\xff\xff"), more
        ),
        "WAV that says it is four gibibytes": lambda _: tar(
            one, member("x.wav", b"RIFF\xff\xff\xff\xff" + sound_wav + b"\xff\xff\xff\xff" + bytes(99)), more
        ),
        "WAV of 65,535 channels": lambda _: tar(
            one,
            member(
                "x.wav", b"RIFF\x88\0\0\0" + sound_wav.replace(b"\1\0\1\0", b"\1\0\xff\xff") + b"\x63\0\0\0" + bytes(99)
            ),
            more,
        ),
    }


def index_of(blob: bytes, name: str, lie: str, chance: random.Random) -> bytes:
    """An index of a tar with a right checksum and wrong byte ranges."""
    try:
        index = index_tar(io.BytesIO(blob), name).to_bytes()
    except Exception:  # noqa: BLE001 - of an archive that has none
        index = index_tar(io.BytesIO(tar(sound(1))), name).to_bytes()
    length = int.from_bytes(index[:8], "little")
    content, body = json.loads(index[8 : 8 + length]), index[8 + length :]
    arrays = [key for key in content if key != "__metadata__"]
    if lie == "shape":
        content[chance.choice(arrays)]["shape"] = [chance.choice([1 << 40, -1, 0]), 1]
    elif lie == "offsets":
        content[chance.choice(arrays)]["data_offsets"] = chance.choice([[0, 1 << 60], [-8, 8], [8, 0]])
    elif lie == "kind":
        content[chance.choice(arrays)]["dtype"] = chance.choice(["O", "F64", "U8", ""])
    elif lie == "ranges":
        start = content["ranges"]["data_offsets"][0]
        lies = struct.pack("<2q", *chance.choice([(0, 1 << 50), (-512, 512), (600, 512), (0, 1 << 62)]))
        body = body[:start] + lies + body[start + 16 :]
    elif lie == "counts":
        start, stop = content["num_frames"]["data_offsets"]
        body = body[:start] + struct.pack("<q", chance.choice([1 << 50, -5])) * ((stop - start) // 8) + body[stop:]
    text = json.dumps(content, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % 8)
    head = (chance.choice([1 << 62, 0, len(text) + 8]) if lie == "header" else len(text)).to_bytes(8, "little")
    made = bytearray(head + text + body)
    made[34:42] = b"00000000"
    made[34:42] = b"%08x" % zlib.crc32(made)
    return bytes(made)


LIES = ("shape", "offsets", "kind", "ranges", "counts", "header")


def mutated(blob: bytes, chance: random.Random) -> bytes:
    """The archive with some bytes of its headers changed and the checksums of the headers corrected."""
    made = bytearray(blob)
    for place in range(0, min(len(made), 1 << 16), 512):
        if made[place + 257 : place + 262] == b"ustar" and chance.random() < 0.3:
            at = place + chance.choice([chance.randrange(148), *range(124, 136), 156, chance.randrange(157, 512)])
            made[at] = chance.choice([0, 0x80, 0xFF, ord("7"), ord("-"), ord("S"), ord("x"), chance.randrange(256)])
            made[place + 148 : place + 156] = b" " * 8
            made[place + 148 : place + 156] = b"%06o\0 " % sum(made[place : place + 512])
    return bytes(made)
