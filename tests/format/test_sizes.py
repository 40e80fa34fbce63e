"""Tests of `headrace.format.sizes`."""

import pytest

from headrace.errors import FormatError
from headrace.format.other_formats import GUIDE
from headrace.format.sizes import parse_sizes
from tests.support.other_formats import LITDATA, MDS


def test_an_index_of_another_format_in_place_of_sizes_json_is_recognized():
    for blob, whose in ((LITDATA, "LitData"), (MDS, "MosaicML")):
        with pytest.raises(FormatError, match=rf"x/index\.json: expected .*belongs to an? .*{whose}.*{GUIDE}"):
            parse_sizes(blob, "x/index.json")
    with pytest.raises(FormatError, match="write it again with `headrace index`"):
        parse_sizes(b'{"a.tar": "many"}', "x/sizes.json")
