"""An object has the members that it hands on, in every version of Python."""

import pytest

from headrace.encoders.protocol import Encoder, TextEncoder
from headrace.exports.exporter import SampleExporter, ShardExporter
from headrace.sources.sources import Corpus
from headrace.stores.storage import LocalStorage, Storage
from headrace.testing.members import missing_members


class Wrapped:
    """Hands everything on."""

    def __init__(self, own):
        self._own = own

    def __getattr__(self, name):
        return getattr(self._own, name)


@pytest.mark.parametrize("protocol", [Encoder, TextEncoder, SampleExporter, ShardExporter, Corpus, Storage])
def test_nothing_has_no_member_of_a_protocol(protocol):
    assert missing_members(object(), protocol)


def test_members_that_are_handed_on_are_there(tmp_path):
    assert missing_members(Wrapped(LocalStorage(tmp_path)), Storage) == []
    assert "encode" in missing_members(Wrapped(LocalStorage(tmp_path)), Encoder)
