"""Audio bytes to arrays and back: the face of this layer, which is all that others import.

Pure in the sense of the house: files come in opened, nothing here knows paths, data sets, storage or threads. Inside:
`forms` (types) → `segments`, `levels`, `headers`, `flac`, `sound` → `reader`, `resampling`, `writer`, `probe` →
`encode`, `decode`.
"""

from headrace.audio.decode import decode
from headrace.audio.encode import encode_segments
from headrace.audio.flac import FlacInfo, decode_flac_into, flac_info, whole_flac_info
from headrace.audio.forms import AudioFormat, AudioInfo, EncodedSegment, Reject, Segment
from headrace.audio.probe import probe
from headrace.audio.segments import plan_segments
from headrace.audio.writer import codec_version

__all__ = [
    "AudioFormat",
    "AudioInfo",
    "EncodedSegment",
    "FlacInfo",
    "Reject",
    "Segment",
    "codec_version",
    "decode",
    "decode_flac_into",
    "encode_segments",
    "flac_info",
    "plan_segments",
    "probe",
    "whole_flac_info",
]
