"""Decodes and encodes audio: probing of recordings, decoding to arrays, and encoding of segments as FLAC or Opus.

Other packages import from here only. Functions take open files and arrays; nothing in this package knows paths, data
sets, storage or threads.
"""

from headrace.audio.codecs import kept_extension, planned_bytes
from headrace.audio.decode import EncodedAudio, decode, decode_into, open_encoded
from headrace.audio.encode import encode_segments, prove, proves
from headrace.audio.flac import FlacInfo, decode_flac_into, flac_info, known_flac, whole_flac_info
from headrace.audio.flac_frames import decode_flac_part
from headrace.audio.forms import (
    AudioFormat,
    AudioInfo,
    AudioOrigin,
    AudioReject,
    Codec,
    EncodedSegment,
    Segment,
    Span,
    Transform,
)
from headrace.audio.loudness import Levels, levels
from headrace.audio.member_file import MemberFile
from headrace.audio.partial import PartFacts, decode_part, part_spans, seek_points
from headrace.audio.probe import probe, probe_version
from headrace.audio.seek_points import SeekPoints
from headrace.audio.segments import plan_segments
from headrace.audio.spans import decode_spans, encode_spans
from headrace.audio.tags import without_tag
from headrace.audio.writer import codec_version, with_serial

__all__ = [
    "AudioFormat",
    "AudioInfo",
    "AudioOrigin",
    "AudioReject",
    "Codec",
    "EncodedAudio",
    "EncodedSegment",
    "FlacInfo",
    "Levels",
    "MemberFile",
    "PartFacts",
    "SeekPoints",
    "Segment",
    "Span",
    "Transform",
    "codec_version",
    "decode",
    "decode_flac_into",
    "decode_flac_part",
    "decode_into",
    "decode_part",
    "decode_spans",
    "encode_segments",
    "encode_spans",
    "flac_info",
    "kept_extension",
    "known_flac",
    "levels",
    "open_encoded",
    "part_spans",
    "plan_segments",
    "planned_bytes",
    "probe",
    "probe_version",
    "prove",
    "proves",
    "seek_points",
    "whole_flac_info",
    "with_serial",
    "without_tag",
]
