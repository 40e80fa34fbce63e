"""Recognises the form of an audio file by its first bytes, and rejects by name every form that is not read.

A form is read if a missing end can be noticed: by a length in its header, or by its framing. libsndfile also opens
containers without a length, in which a truncated file looks whole; they are rejected. `headrace.audio.headers` compares
the lengths.
"""

import re
from enum import Enum, auto
from typing import BinaryIO

from headrace.audio.forms import AudioReject
from headrace.audio.tags import id3_bytes, is_mpeg
from headrace.errors import AudioError

_HEAD_BYTES = 1024
_HTK_HEAD_BYTES = 12
_SHOWN_BYTES = 8


class Form(Enum):
    """The forms that are opened in different ways."""

    MPEG = auto()
    OGG = auto()
    OTHER = auto()
    """Forms that libsndfile reads whole."""
    MP4 = "MP4, M4A or 3GP"
    MATROSKA = "Matroska or WebM"
    ASF = "Windows Media (WMA)"
    """Forms that need the extra `av`."""


_READ = re.compile(
    rb"RIFF....WAVE|RIFX....WAVE|RF64....WAVE|riff|FORM....(AIFF|AIFC|8SVX|16SV)|caff|\.snd|dns\.|fLaC|NIST_1A|2BIT"
    rb"|\0{2}\x03\xe8\0{3}\x01\0{3}\x01|\0{4}\x01\0{3}\x01\0{3}",  # MATLAB 4 in both byte orders
    re.DOTALL,
)
_CONVERT = "decode it to FLAC or WAV first (ffmpeg -i OLD NEW.flac, or sox OLD NEW.flac)"
_NO_LENGTH = f"a truncated file of this form looks whole; {_CONVERT}"
_UNPACK = "unpack it, and keep the archive out of the source"
_NO_SOUND = "keep it out of the source"
_FETCH = "the recording itself has to be downloaded"
EXTRA = f"install it (pip install 'headrace[av]'), or {_CONVERT}"
"""The way out for a form that needs the extra `av`."""
_BY_LIBAV = (
    (rb"....ftyp", Form.MP4),
    (rb"\x1a\x45\xdf\xa3", Form.MATROSKA),
    (rb"\x30\x26\xb2\x75\x8e\x66\xcf\x11", Form.ASF),
)
_REJECTED: tuple[tuple[bytes, str, str], ...] = (
    (rb"[ p]paf|fap ", "Ensoniq PARIS (PAF)", _NO_LENGTH),
    (rb"PVF1", "Portable Voice Format (PVF)", _NO_LENGTH),
    (rb"\x64\xa3[\x00-\x07]\x00|\x00[\x00-\x07]\xa3\x64", "Berkeley/IRCAM", _NO_LENGTH),
    (rb"Creative Voice File", "Creative Voice (VOC)", f"it may consist of several blocks; {_CONVERT}"),
    (rb"MATLAB 5", "MATLAB 5", _CONVERT),
    (rb"Extended Ins", "FastTracker instrument (XI)", _CONVERT),
    (rb"ALawSoundFil", "Psion (WVE)", _CONVERT),
    (rb"\xf0\x7e.\x01", "MIDI Sample Dump (SDS)", _CONVERT),
    (rb"\x01\x04[ -~\0]{16}", "Akai MPC 2000", _CONVERT),
    (rb"BW64....WAVE", "Broadcast Wave 64 (BW64)", _CONVERT),
    (rb"RIFF....AVI ", "AVI", _CONVERT),
    (rb"RIFF....WEBP|\x89PNG|GIF8|\xff\xd8\xff|BM....\0\0\0\0", "a picture", _NO_SOUND),
    (rb"RIFF|RIFX|RF64|FORM", "a RIFF or IFF file without audio", _NO_SOUND),
    (rb"\xff[\xf0\xf1\xf8\xf9]", "AAC (ADTS)", _CONVERT),
    (rb"ADIF", "AAC (ADIF)", _CONVERT),
    (rb"\x0b\x77", "AC-3", _CONVERT),
    (rb"\x7f\xfe\x80\x01|\xfe\x7f\x01\x80", "DTS", _CONVERT),
    (rb"MAC ", "Monkey's Audio", _CONVERT),
    (rb"wvpk", "WavPack", _CONVERT),
    (rb"TTA[12]", "True Audio", _CONVERT),
    (rb"MPCK|MP\+", "Musepack", _CONVERT),
    (rb"ajkg", "shorten", _CONVERT),
    (rb"DSD |FRM8", "Direct Stream Digital (DSD)", _CONVERT),
    (rb"#!AMR", "AMR", _CONVERT),
    (rb"\.ra\xfd|\.RMF", "RealAudio", _CONVERT),
    (rb"FLV\x01", "Flash video", _CONVERT),
    (rb"MThd", "MIDI, which has notes and no sound", _NO_SOUND),
    (rb"version https://git-lfs", "a pointer of git-lfs", f"{_FETCH} (git lfs pull)"),
    (
        rb"(?i)(\xef\xbb\xbf)?\s*(<!doctype html|<html|<head)",
        "an HTML page",
        f"{_FETCH}: the server sent a page instead",
    ),
    (rb"(?i)(\xef\xbb\xbf)?\s*<(\?xml|Error)", "XML", f"{_FETCH}: perhaps a server sent an error instead"),
    (rb"(\xef\xbb\xbf)?\s*[{\[]\s*[\"{\[\]}0-9]", "JSON", f"{_NO_SOUND}, or, if a server sent an error, {_FETCH}"),
    (rb"PK\x03\x04|PK\x05\x06", "a zip archive", _UNPACK),
    (rb"\x1f\x8b|BZh[1-9]|\xfd7zXZ|\x28\xb5\x2f\xfd|7z\xbc\xaf|Rar!", "a compressed file", _UNPACK),
    (rb".{257}ustar", "a tar", _UNPACK),
    (rb"%PDF", "PDF", _NO_SOUND),
    (rb"\xff\xfe(?:[\t\n\r -~]\0){8}|\xfe\xff(?:\0[\t\n\r -~]){8}", "text (UTF-16)", _NO_SOUND),
)


def form_of(file: BinaryIO, num_bytes: int) -> Form:
    """The form of an audio file. Tags in front of other forms than MPEG audio are skipped before (`tags.behind_tag`).

    Args:
        file: seekable; its position is moved.
        num_bytes: size of the file.

    Raises:
        AudioError: `unsupported`; the message names the form, and says what to do.
    """
    head = _behind_tags(file)
    if head.startswith(b"OggS"):
        return Form.OGG
    if _READ.match(head) or _is_htk(head, num_bytes):
        return Form.OTHER
    for magic, form in _BY_LIBAV:
        if re.match(magic, head, re.DOTALL):
            return form
    for pattern, name, way_out in _REJECTED:
        if re.match(pattern, head, re.DOTALL):
            raise unsupported(name, way_out)
    if is_mpeg(head):
        return Form.MPEG
    raise unsupported(
        f"a file that begins with {head[:_SHOWN_BYTES]!r}", f"if it is audio, {_CONVERT}; if not, {_NO_SOUND}"
    )


def unsupported(name: str, way_out: str) -> AudioError:
    """The error for a form that is not read."""
    return AudioError(AudioReject.UNSUPPORTED, f"not a form of audio that is read: {name}; {way_out}")


def _behind_tags(file: BinaryIO) -> bytes:
    """The first bytes behind all ID3v2 tags."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_HEAD_BYTES)
        if not (size := id3_bytes(head[:10])):
            return head
        at += size


def _is_htk(head: bytes, num_bytes: int) -> bool:
    """Whether a file is an HTK waveform: it has no magic, but its length is that of its header."""
    return head[8:12] == b"\0\2\0\0" and 2 * int.from_bytes(head[:4], "big") + _HTK_HEAD_BYTES == num_bytes
