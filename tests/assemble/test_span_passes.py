"""A file is decoded once for all of its spans, which wait encoded until their shards take them."""

import gc
import tempfile
from concurrent.futures import ThreadPoolExecutor

import pytest

from headrace.assemble import span_passes
from headrace.assemble.span_passes import SpanPasses, WaitingSpans
from headrace.audio import AudioReject, EncodedSegment
from headrace.errors import AudioError
from tests.support.recordings import recording


def span(key, path="x.ogg"):
    return recording(key, subtype="VORBIS", path=path, start_frame=1, stop_frame=5)


def encoded(key):
    data = f"bytes of {key}".encode()
    return EncodedSegment(data, len(data), 4, 10, 1, None)


class Decoder:
    """Gives spans in the reverse order, and counts the passes."""

    def __init__(self, error=None):
        self.passes, self.error = [], error

    def __call__(self, spans):
        self.passes.append([one.key for one in spans])
        for number in reversed(range(len(spans))):
            key = spans[number].key
            yield number, lambda key=key: self.error if self.error and key == "b" else encoded(key)


@pytest.fixture
def pools():
    with ThreadPoolExecutor(2) as pool, ThreadPoolExecutor(2) as encoders:
        yield pool, encoders


def test_each_file_is_decoded_once_and_spans_are_taken_in_any_order(pools):
    decode = Decoder()
    spans = {"x.ogg": [span("a"), span("b"), span("c")], "y.ogg": [span("d", "y.ogg")]}
    passes = SpanPasses(*pools, 2, spans, decode)
    later, first = passes.start([spans["x.ogg"][2], spans["x.ogg"][0]]), passes.start([spans["x.ogg"][1]])
    other = passes.start(spans["y.ogg"])
    assert first.result() == [encoded("b")]
    assert later.result() == [encoded("c"), encoded("a")]
    assert other.result() == [encoded("d")]
    assert sorted(decode.passes) == [["a", "b", "c"], ["d"]]


def test_an_error_of_a_span_is_its_result(pools):
    error = AudioError(AudioReject.NON_FINITE, "nan")
    waiting = WaitingSpans([span("a"), span("b")], Decoder(error), pools[1], 2)
    assert waiting.take("b") is error
    assert waiting.take("a") == encoded("a")
    with pytest.raises(KeyError):
        waiting.take("a")


def test_an_error_of_a_pass_is_raised_by_each_task(pools):
    def broken(spans):
        raise ZeroDivisionError
        yield

    taken = SpanPasses(*pools, 2, {"x.ogg": [span("a")]}, broken).start([span("a")])
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            taken.result()


@pytest.mark.parametrize("is_broken", [False, True], ids=["spans that nobody takes", "a pass that fails"])
def test_the_file_of_waiting_spans_is_closed_with_them(pools, monkeypatch, is_broken):
    made, make = [], tempfile.SpooledTemporaryFile

    def file(size):
        made.append(make(size))
        return made[-1]

    def decode(spans):
        yield 0, lambda: encoded("a")
        if is_broken:
            raise ZeroDivisionError

    monkeypatch.setattr(span_passes.tempfile, "SpooledTemporaryFile", file)
    passes = SpanPasses(*pools, 2, {"x.ogg": [span("a")]}, decode)
    error = passes.start([span("a")]).future.exception()
    assert (type(error) is ZeroDivisionError) == is_broken
    del error, passes
    gc.collect()
    (waiting,) = made
    assert waiting.closed
