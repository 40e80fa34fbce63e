"""Shared by test_scan_parts and the tests beside it."""

from headrace.errors import ConfigError

FIELDS = {"mix": "path", "voice": "voice"}


def outcome(act):
    """Result of a scan, or the message of its error."""
    try:
        found = act()
    except ConfigError as error:
        return str(error)
    names = ("num_found", "num_opened", "num_reused", "num_rows", "num_merged_rows", "num_waiting_rows", "num_cut_rows")
    numbers = {name: getattr(found, name) for name in (*names, "num_recordings", "num_used")}
    order = ["path", "start_frame", "stop_frame", "key"]
    return found.recordings.sort(order), found.rejected, found.unsettled, numbers


def assert_equal(one, other):
    if isinstance(one, str) or isinstance(other, str):
        assert one == other
        return
    for expected, given_ in zip(one[:3], other[:3], strict=True):
        assert expected.schema == given_.schema
        assert expected.rows() == given_.rows()
    assert one[3] == other[3]
