"""Rows find the files of their audio fields in all parts of a scan."""

import polars as pl
import pytest

from headrace.catalog.judging.acceptance import CatalogSettings
from headrace.catalog.scanning.scan import scan
from headrace.config.source import SampleKind
from tests.support.catalog_fakes import NOW_NS, FakeSource, fake_runtime
from tests.support.scan_parts import FIELDS, assert_equal, outcome

VOICES = pl.List(pl.Struct({"path": pl.String}))


@pytest.mark.medium
def test_rows_with_audio_fields_find_their_files_in_other_parts():
    """Shared files, other spellings, files that are missing, damaged, too long, or not settled yet."""
    source, rows = FakeSource(), []
    for number in range(47):
        source.put(f"mix/{number}.wav", b"m%02d" % number + b"x" * 37)
    for number in range(40):
        source.put(f"voice/{number}.wav", b"v%02d" % number + b"x" * 37)
        rows.append((f"mix/{number}.wav", f"voice/{number if number % 5 else 1}.wav"))
    source.put("voice/e\u0301.wav", b"e" * 40)
    source.put("voice/bad.wav", b"bad")
    source.put("voice/long.wav", b"l" * 80)
    source.put("voice/new.wav", b"n" * 40, NOW_NS)
    others = ("./voice/\u00e9.wav", "voice/gone.wav", "voice/bad.wav", "voice/long.wav", "voice/new.wav", "", None)
    rows += [(f"mix/{number}.wav", voice) for number, voice in enumerate(others, start=40)]
    table = pl.DataFrame(rows, schema={"path": pl.String, "voice": pl.String}, orient="row")
    asked = CatalogSettings(samples=SampleKind.ROWS, fields=FIELDS, settle_seconds=5)
    whole = outcome(lambda: scan(source, None, asked, table, fake_runtime()))
    assert_equal(whole, outcome(lambda: scan(source, None, asked, table, fake_runtime(table_bytes=1500))))
    recordings, rejected, unsettled, numbers = whole
    assert recordings.height == 41
    assert numbers["num_waiting_rows"] == 1
    assert unsettled["path"].to_list() == ["voice/new.wav"]
    codes = dict(rejected.group_by("code").len().rows())
    assert codes["metadata_without_file"] == 2  # the row, and its mix, which no other row names
    assert codes["no_row"] == 8  # the voices of every fifth row, which name the voice of the second one
    assert "voice/e\u0301.wav" in recordings["field_files"].str.json_decode(VOICES).list.last().struct["path"].to_list()
