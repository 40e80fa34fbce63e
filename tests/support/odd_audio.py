"""Odd audio files, by name, with what every door must say of them: length, rate and channels, or the code of the error.

They are made from bytes, without programs of others.
"""

import importlib.util
import struct
import zipfile
from dataclasses import dataclass
from io import BytesIO

from headrace.audio.ogg import changed_page
from tests.support.mpegs import mp3_of
from tests.support.sounds import file_of, music

NUM_FRAMES = 6_000
RATE = 44_100
TAG = b"ID3\x04\0\0\0\0\x01\x48" + bytes(200)
"""An ID3v2 tag of 210 bytes."""


_OF_LIBAV = "undecodable" if importlib.util.find_spec("av") else "unsupported"
"""The code of a damaged file of a form that only libav reads."""


@dataclass(frozen=True)
class Odd:
    """An odd file.

    Attributes:
        data: its bytes.
        header: length, rate and channels as its header says, or the code of the error.
        decoded: the code of the error where the audio is decoded; None if decoding finds nothing more.
    """

    data: bytes
    header: tuple[int, int, int] | str
    decoded: str | None = None

    @property
    def error(self):
        """The code of the error of a door that decodes; None without one."""
        return self.decoded or (self.header if isinstance(self.header, str) else None)


def sound(container="WAV", subtype="PCM_16", num_channels=1, rate=RATE):
    return file_of(music(NUM_FRAMES, num_channels, rate), container, subtype, rate)


def flac(num_frames, total=None):
    """A FLAC file with another length in its header, and without the MD5."""
    data = bytearray(file_of(music(num_frames), "FLAC"))
    if total is not None:
        data[21] = data[21] & 0xF0 | total >> 32
        data[22:26] = (total & 0xFFFFFFFF).to_bytes(4, "big")
        data[26:42] = bytes(16)
    return bytes(data)


def wav(riff=None, size=None, coding=None, tail=b"", subtype="PCM_16"):
    data = bytearray(sound(subtype=subtype))
    at = data.index(b"data")
    if riff is not None:
        data[4:8] = struct.pack("<I", riff)
    if size is not None:
        data[at + 4 : at + 8] = struct.pack("<I", size)
    if coding is not None:
        data[20:22] = struct.pack("<H", coding)
    return bytes(data) + tail


def zeroed(container, mark, width, order, value=0):
    """A file whose header says that it has no audio."""
    data = bytearray(sound(container))
    at = data.index(mark) + len(mark) if mark else 8
    data[at : at + width] = value.to_bytes(width, order)
    return bytes(data)


def opus(rate):
    """Opus with another rate in its header."""
    data = sound("OGG", "OPUS", rate=48_000)
    stop = 27 + data[26] + sum(data[27 : 27 + data[26]])
    return changed_page(data[:stop], data.index(b"OpusHead") + 12, rate.to_bytes(4, "little")) + data[stop:]


def mp3_with_crc(num_channels=1):
    """An MP3 whose Info frame has a CRC, as `lame -p` writes it."""
    data = bytearray(mp3_of(NUM_FRAMES, num_channels).data)
    data[1] &= 0xFE
    data[4:6] = b"\x15\xaf"
    return bytes(data)


def sphere(coding=None):
    data = sound("NIST")
    return (
        data
        if coding is None
        else data.replace(b"sample_coding -s3 pcm", b"sample_coding -s%d %s" % (len(coding), coding))
    )


def ogg_of(packet):
    """A page of Ogg with one packet."""
    page = b"OggS\0\6" + bytes(12) + bytes(4) + bytes(4) + b"\1" + bytes([len(packet)]) + packet
    return changed_page(page, 0, b"OggS")


def zipped():
    file = BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a.wav", sound())
    return file.getvalue()


WHOLE = (NUM_FRAMES, RATE, 1)
NOISE = bytes(range(1, 251)) * 3
_MP3 = mp3_of(NUM_FRAMES)
_FRAME = _MP3.frames[: _MP3.frames.index(_MP3.frames[:2], 4)]
_LENGTHS = ["WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF", "SVX", "NIST", "AVR", "MAT4", "HTK"]
_NO_LENGTHS = ["PAF", "PVF", "IRCAM", "VOC", "MAT5", "XI", "SDS", "MPC2K"]
_MONO = {"HTK": (NUM_FRAMES, 44_247, 1)}  # its header has the period of a frame in units of 100 ns

ODD = (
    {f"{name} whole": Odd(sound(name), _MONO.get(name, WHOLE)) for name in _LENGTHS}
    | {f"{name} half": Odd(sound(name)[: NUM_FRAMES + 100], "truncated") for name in _LENGTHS if name != "HTK"}
    | {f"{name} behind a tag": Odd(TAG + sound(name), _MONO.get(name, WHOLE)) for name in _LENGTHS}
    | {
        f"{name}, which may look whole": Odd(sound(name, "DPCM_16" if name == "XI" else "PCM_16"), "unsupported")
        for name in _NO_LENGTHS
    }
    | {
        "HTK half": Odd(sound("HTK")[:NUM_FRAMES], "unsupported"),
        "FLAC whole": Odd(flac(NUM_FRAMES), WHOLE),
        "FLAC behind a tag": Odd(TAG + flac(NUM_FRAMES), WHOLE),
        "FLAC behind two tags": Odd(TAG + TAG + flac(NUM_FRAMES), WHOLE),
        "FLAC of half of its frames": Odd(flac(NUM_FRAMES, 3_000), (3_000, RATE, 1), "undecodable"),
        "FLAC of half of its frames behind a tag": Odd(TAG + flac(NUM_FRAMES, 3_000), (3_000, RATE, 1), "undecodable"),
        "FLAC of twice its frames": Odd(flac(NUM_FRAMES, 12_000), (12_000, RATE, 1), "truncated"),
        "FLAC with total 0": Odd(flac(NUM_FRAMES, 0), WHOLE),
        "FLAC with total 0 behind a tag": Odd(TAG + flac(NUM_FRAMES, 0), WHOLE),
        "FLAC before a tag": Odd(flac(NUM_FRAMES) + b"TAG" + bytes(125), WHOLE),
        "FLAC by name, WAV by content": Odd(sound(), WHOLE),
        "WAV by name, FLAC by content": Odd(flac(NUM_FRAMES), WHOLE),
        "WAV by name, FLAC of half of its frames by content": Odd(
            flac(NUM_FRAMES, 3_000), (3_000, RATE, 1), "undecodable"
        ),
        "FLAC half": Odd(flac(20_000)[:7_000], (20_000, RATE, 1), "truncated"),
        "Vorbis": Odd(sound("OGG", "VORBIS"), WHOLE),
        "Vorbis behind a tag": Odd(TAG + sound("OGG", "VORBIS"), WHOLE),
        "Vorbis half": Odd(sound("OGG", "VORBIS")[:-500], "truncated"),
        "Vorbis 5.1": Odd(sound("OGG", "VORBIS", 6), (NUM_FRAMES, RATE, 6)),
        "Opus behind a tag": Odd(TAG + opus(48_000), (NUM_FRAMES, 48_000, 1)),
        **{
            f"Opus at {rate} Hz": Odd(opus(rate), (NUM_FRAMES, 48_000, 1))
            for rate in (0, 1, 7_350, 11_025, 22_050, 44_100)
        },
        "Opus at no rate": Odd(opus(0xFFFFFFFF), (NUM_FRAMES, 48_000, 1)),
        "MP3": Odd(_MP3.data, WHOLE),
        "MP3 behind a tag": Odd(TAG + _MP3.data, WHOLE),
        "MP3 with CRC": Odd(mp3_with_crc(), WHOLE),
        "MP3 with CRC, stereo": Odd(mp3_with_crc(2), (NUM_FRAMES, RATE, 2)),
        "MP3 with CRC behind a tag": Odd(TAG + mp3_with_crc(), WHOLE),
        "MP3 before a tag": Odd(_MP3.data + b"TAG" + bytes(125), WHOLE),  # its header states another size
        "MP3 half": Odd(_MP3.data[: len(_MP3.data) // 2], "truncated"),
        "MP3 of one frame": Odd(_FRAME, "unsupported"),
        "WAV, tail of noise": Odd(wav(tail=NOISE), "undecodable"),
        "WAV, tail of 4,096 bytes": Odd(wav(tail=NOISE * 5 + NOISE[:346]), "undecodable"),
        "WAV, tail of a frame": Odd(wav(tail=b"\x07\x08"), "undecodable"),
        "AIFF, tail of noise": Odd(sound("AIFF") + NOISE, "undecodable"),
        "AU, tail of noise": Odd(sound("AU") + NOISE, "undecodable"),
        "CAF, tail of noise": Odd(sound("CAF") + NOISE, "undecodable"),
        "W64, tail of noise": Odd(sound("W64") + NOISE, "undecodable"),
        "RF64, tail of noise": Odd(sound("RF64") + NOISE, "undecodable"),
        "SPHERE, tail of noise": Odd(sphere() + NOISE, "undecodable"),
        "WAV, tail of zeros": Odd(wav(tail=bytes(500)), WHOLE),
        "WAV, tail of a tag": Odd(wav(tail=b"TAG" + b"x" * 125), WHOLE),
        "WAV, tail of a chunk": Odd(wav(tail=b"LIST\4\0\0\0abcd"), WHOLE),
        "WAV of an odd size, chunk not padded": Odd(
            file_of(music(NUM_FRAMES + 1), "WAV", "PCM_U8")[: 44 + NUM_FRAMES + 1] + b"LIST\4\0\0\0abcd",
            (NUM_FRAMES + 1, RATE, 1),
        ),
        **{f"WAV not closed, RIFF {riff}": Odd(wav(riff, 0), "undecodable") for riff in (0, 36, 44, 0x7FFFFFFF)},
        "WAV not closed, RIFF 8": Odd(wav(8, 0), WHOLE),
        "WAV of an open size": Odd(wav(0xFFFFFFFF, 0xFFFFFFFF), WHOLE),
        "WAV, header alone": Odd(file_of(music(0)), "no_frames"),
        "AIFF not closed": Odd(zeroed("AIFF", b"SSND", 4, "big", 8), "undecodable"),
        "AU not closed": Odd(zeroed("AU", b"", 4, "big"), "undecodable"),
        "CAF not closed": Odd(zeroed("CAF", b"data", 8, "big"), "undecodable"),
        "WAV with MP3": Odd(wav(coding=0x55), "unsupported"),
        "WAV with AAC": Odd(wav(coding=0xFF), "unsupported"),
        "SPHERE without its length": Odd(sphere().replace(b"sample_count", b"sample_clock"), "unsupported"),
        "SPHERE with shorten": Odd(sphere(b"pcm,embedded-shorten-v2.00"), "unsupported"),
        "Ogg FLAC": Odd(ogg_of(b"\x7fFLAC\1\0\0\1fLaC" + bytes(38)), "unsupported"),
        "Ogg Speex": Odd(ogg_of(b"Speex   1.2"), "unsupported"),
        "git-lfs": Odd(b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n", "unsupported"),
        "HTML": Odd(b"\n<!DOCTYPE html><html><head><title>404</title></head></html>", "unsupported"),
        "JSON": Odd(b'{"error": "not found"}', "unsupported"),
        "zip": Odd(zipped(), "unsupported"),
        "gzip": Odd(b"\x1f\x8b\x08" + bytes(50), "unsupported"),
        "M4A": Odd(b"\0\0\0\x20ftypM4A " + bytes(100), _OF_LIBAV),
        "AAC": Odd(b"\xff\xf1\x50\x80" + bytes(100), "unsupported"),
        "UTF-16": Odd("version of a text".encode("utf-16") * 20, "unsupported"),
        "text": Odd(b"title: a song\n" * 20, "unsupported"),
        "nothing": Odd(b"", "empty"),
    }
)
