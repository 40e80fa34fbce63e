"""Makes and parses the keys of segments and spans: a recording's key, and the number of the segment or the frames.

It does not import polars (`keys` does), which a run that builds shards does not need.
"""

import re

_SEGMENT = re.compile(r"-s\d{6,}$")
SPAN_END = r"(-c[0-9]{1,3}(-[0-9]{1,3})*)?-f[0-9]+-[0-9]+$"
"""End of the key of a span: the channels, if some were chosen, and the frames."""
_SPAN = re.compile(SPAN_END)


def segment_key(recording: str, index: int) -> str:
    """Key of a recording's segment.

    >>> segment_key("dawn", 12)
    'dawn-s000012'
    """
    return f"{recording}-s{index:06d}"


def span_recording(key: str) -> str:
    """Key of the recording of a span, if the span's key was made from its channels and frames; otherwise empty.

    >>> span_recording("dawn-eb520e8dc8c1-f0-16000"), span_recording("dawn")
    ('dawn-eb520e8dc8c1', '')
    >>> span_recording("dawn-eb520e8dc8c1-c0-1-f0-16000")
    'dawn-eb520e8dc8c1'
    """
    found = _SPAN.search(key)
    return key[: found.start()] if found else ""


def recording_key(key: str) -> str:
    """Key of the recording that a sample was cut from; any end that looks like a segment's number is removed.

    >>> recording_key("birds/dawn-s000012"), recording_key("birds/dawn")
    ('birds/dawn', 'birds/dawn')
    """
    return _SEGMENT.sub("", key)
