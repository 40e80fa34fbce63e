"""A source that is opened when it is first needed."""

from headrace.sources.late_source import LateSource
from headrace.sources.rows_ahead import announce


class Source:
    told = ()

    def will_open(self, recordings):
        self.told = tuple(recordings)


def test_the_source_is_told_which_recordings_will_be_opened_and_is_not_opened_for_none():
    source, opened = Source(), []

    def open_source():
        opened.append(1)
        return source

    late = LateSource(open_source)
    announce(late, [])
    assert opened == []
    announce(late, [("a", 1)])
    assert source.told == (("a", 1),)
