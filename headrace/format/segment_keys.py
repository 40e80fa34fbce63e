"""Makes and parses the keys of segments: a recording's key, followed by the number of the segment.

It does not import polars (`keys` does), which a run that builds shards does not need.
"""

import re

_SEGMENT = re.compile(r"-s\d{6,}$")


def segment_key(recording: str, index: int) -> str:
    """Key of a recording's segment.

    >>> segment_key("dawn", 12)
    'dawn-s000012'
    """
    return f"{recording}-s{index:06d}"


def recording_key(key: str) -> str:
    """Key of the recording that a sample was cut from; any end that looks like a segment's number is removed.

    >>> recording_key("birds/dawn-s000012"), recording_key("birds/dawn")
    ('birds/dawn', 'birds/dawn')
    """
    return _SEGMENT.sub("", key)
