"""With seek points, a part has the same values and needs one read of about its own bytes; wrong points do no harm."""

from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.audio import MemberFile, PartFacts, SeekPoints, decode_part, seek_points
from headrace.audio.decode import decode
from headrace.audio.ogg import CONTINUED, changed_page, pages_of
from headrace.audio.ogg_packets import has_speech_mode
from tests.audio.test_partial import encoded, files, places
from tests.support.mpegs import mp3_of

OPUS = [(8_000, 1), (16_000, 2), (24_000, 1), (48_000, 2)]


@cache
def opus_files():
    return [encoded("OGG", "OPUS", rate, channels, number, seconds=4) for number, (rate, channels) in enumerate(OPUS)]


def facts_of(blob):
    whole, rate = decode(blob)
    return whole, PartFacts(whole.shape[1], rate, whole.shape[0])


def opened(blob, reads=None):
    def read(start, stop):
        if reads is not None:
            reads.append(stop - start)
        return memoryview(blob)[start:stop]

    return MemberFile(read, len(blob), 4096)


def part(blob, facts, points, place, reads=None):
    start, count = place
    out = np.full((facts.num_channels, count), 7, np.float32)
    return out if decode_part(opened(blob, reads), facts, out, start, points) else None


def only_points(monkeypatch):
    """Leave nothing to the search."""
    for name in ("decode_frames", "decode_mpeg", "decode_ogg"):
        monkeypatch.setattr(f"headrace.audio.partial.{name}", lambda *_: False)


@pytest.mark.medium
@pytest.mark.parametrize("kind", ["flac", "mp3", "vorbis"])
def test_a_part_is_that_of_the_whole_decode(kind, monkeypatch):
    only_points(monkeypatch)
    for number, blob in enumerate(files(kind)):
        whole, facts = facts_of(blob)
        points = seek_points(opened(blob), facts)
        assert points is not None, number
        for start, count in places(whole.shape[1], number):
            found = part(blob, facts, points, (start, count))
            assert found is not None, (number, start)
            assert np.array_equal(found, whole[:, start : start + count]), (number, start)


@pytest.mark.medium
def test_a_part_of_opus_is_near_the_whole_decode_and_always_the_same(monkeypatch):
    only_points(monkeypatch)
    for number, blob in enumerate(opus_files()):
        whole, facts = facts_of(blob)
        points = seek_points(opened(blob), facts)
        for start, count in places(whole.shape[1], number, 12):
            found = part(blob, facts, points, (start, count))
            assert np.abs(found - whole[:, start : start + count]).max() < 2**-20
            assert np.array_equal(found, part(blob, facts, points, (start, count)))


LONG = {  # coding -> the bytes of two seconds, in relation to their share of the file
    "flac": ("FLAC", "PCM_16", 44_100, 1.3),
    "mp3": ("MP3", "MPEG_LAYER_III", 44_100, 1.3),
    "vorbis": ("OGG", "VORBIS", 44_100, 2.0),
    "opus": ("OGG", "OPUS", 48_000, 2.5),
}


@pytest.mark.medium
@pytest.mark.parametrize("kind", LONG)
def test_two_seconds_are_one_read_of_about_their_bytes(kind, monkeypatch):
    only_points(monkeypatch)
    container, subtype, rate, most = LONG[kind]
    blob = encoded(container, subtype, rate, 2, 1, seconds=30)
    whole, facts = facts_of(blob)
    points, reads, count, starts = seek_points(opened(blob), facts), [], 2 * rate, range(3 * rate, 25 * rate, rate)
    for start in starts:
        assert part(blob, facts, points, (start, count), reads) is not None
    assert sum(reads) / len(starts) < most * len(blob) * count / whole.shape[1]
    assert len(reads) <= (1 if kind in {"flac", "mp3"} else 3) * len(starts) * 1.2
    assert len(points.places) <= whole.shape[1] // 8_192 + 1


def test_files_that_are_decoded_whole_have_no_points():
    file, other = mp3_of(44_100, 1), mp3_of(50_000, 1)
    flac, wav = files("flac")[0], files("wav")[0]
    ogg = files("vorbis")[0]
    _, facts = facts_of(flac)
    assert seek_points(opened(flac), facts._replace(num_frames=facts.num_frames + 1)) is None
    assert seek_points(opened(wav), facts_of(wav)[1]) is None
    for joined in (file.data + other.data, ogg + files("vorbis")[1]):
        assert seek_points(opened(joined), PartFacts(94_100, 44_100, 1)) is None
    middle = len(ogg) // 2
    for damaged in (flac[: len(flac) // 2], file.data[:-900], ogg[:middle] + b"?" + ogg[middle + 1 :], b"", b"\xff"):
        assert seek_points(opened(damaged), facts) is None


def test_a_variable_size_of_blocks_has_no_points():
    blob = bytearray(files("flac")[0])
    blob[8:10] = (16).to_bytes(2, "big")
    assert seek_points(opened(bytes(blob)), facts_of(files("flac")[0])[1]) is None


@pytest.mark.parametrize("late", [1, 5 * 44_100, 1 << 62])
def test_ogg_whose_pages_count_other_frames_has_no_points(late):
    blob = files("vorbis")[0]
    _, facts = facts_of(blob)
    pages = pages_of(blob, is_end=True)
    moved = [
        changed_page(blob[page.start : page.stop], 6, (page.granule + late * (page.granule > 0)).to_bytes(8, "little"))
        for page in pages
    ]
    assert seek_points(opened(b"".join(moved)), facts) is None


@pytest.mark.parametrize("early", [1, 700])
def test_vorbis_that_was_cut_without_counting_again_is_decoded_whole(early):
    """The first page has frames before those that it counts (`ffmpeg -ss 5 -c copy` writes such files)."""
    blob = files("vorbis")[0]
    positions = [(page, max(0, page.granule - early)) for page in pages_of(blob, is_end=True)]
    cut = b"".join(changed_page(blob[page.start : page.stop], 6, at.to_bytes(8, "little")) for page, at in positions)
    _, facts = facts_of(cut)
    assert seek_points(opened(cut), facts) is None
    assert part(cut, facts, None, (20_000, 100), []) is None


@pytest.mark.medium
def test_opus_has_points_further_before_a_part_where_it_has_packets_of_speech():
    blob = encoded("OGG", "OPUS", 48_000, 1, 1, seconds=30)
    pages = pages_of(blob, is_end=True)
    assert not any(has_speech_mode(blob[page.start : page.stop]) for page in pages[2:])
    music = seek_points(opened(blob), facts_of(blob)[1])
    page = next(page for page in pages[2:] if not page.flags & CONTINUED)
    at = 27 + blob[page.start + 26]
    of_speech = changed_page(blob[page.start : page.stop], at, b"\x08")
    spoken, facts, reads = blob[: page.start] + of_speech + blob[page.stop :], facts_of(blob)[1], []
    speech = seek_points(opened(spoken), facts)
    assert part(spoken, facts, speech, (20 * 48_000, 48_000), reads) is not None
    assert len(reads) <= 3, "the end of what is read is as far behind its point"
    seconds = [
        points.places[np.searchsorted(np.arange(len(points.places)) * points.step, 20 * 48_000)]
        for points in (music, speech)
    ]
    assert len(blob) * 3.5 / 30 < seconds[0] - seconds[1] < len(blob) * 6 / 30


def test_ogg_of_more_frames_than_its_pages_can_have_has_no_points():
    for blob, late in ((files("vorbis")[0], 1 << 40), (opus_files()[3], 1 << 40)):
        _, facts = facts_of(blob)
        pages = pages_of(blob, is_end=True)
        granule = (pages[-1].granule + late).to_bytes(8, "little")
        moved = blob[: pages[-1].start] + changed_page(blob[pages[-1].start : pages[-1].stop], 6, granule)
        assert seek_points(opened(moved), facts._replace(num_frames=facts.num_frames + late)) is None


def test_opus_from_too_near_a_point_is_not_decoded(monkeypatch):
    only_points(monkeypatch)
    blob = opus_files()[3]
    _, facts = facts_of(blob)
    points = seek_points(opened(blob), facts)
    forged = points._replace(first=-points.step)
    assert part(blob, facts, forged, (10 * points.step, 1000)) is None


@cache
def sounds():
    found = [files("flac")[2], files("mp3")[3], files("vorbis")[3], opus_files()[3]]
    return [(blob, *facts_of(blob), seek_points(opened(blob), facts_of(blob)[1])) for blob in found]


FORGED = st.fixed_dictionaries(
    {
        "coding": st.integers(1, 4),
        "first": st.integers(-9, 9),
        "step": st.one_of(st.none(), st.integers(1, 1 << 30)),
    }
)


@pytest.mark.medium
@given(st.integers(0, 3), st.integers(0), st.integers(-5000, 5000), FORGED, st.integers(0, 20_000))
@settings(max_examples=200, deadline=None)
def test_forged_points_give_an_answer(number, place, moved, forged, start):
    blob, _, facts, points = sounds()[number]
    moved_places = points.places.copy()
    moved_places[place % len(moved_places)] = (moved_places[place % len(moved_places)] + moved) % len(blob)
    step = forged["step"] or points.step
    part(blob, facts, SeekPoints(forged["coding"], forged["first"], step, np.sort(moved_places)), (start, 1000))


@pytest.mark.parametrize("number", range(3))
def test_points_that_lie_beside_a_frame_are_found_out(number):
    blob, whole, facts, points = sounds()[number]
    for moved in (1, 7, 100):
        forged = points._replace(places=np.minimum(points.places + moved, len(blob) - 1))
        found = part(blob, facts, forged, (20_000, 1000))
        assert found is None or np.array_equal(found, whole[:, 20_000:21_000])


def test_flac_at_the_place_of_another_frame_is_found_out():
    blob, whole, facts, points = sounds()[0]
    forged = points._replace(places=points.places[[0, 0, *range(1, len(points.places) - 1)]])
    found = part(blob, facts, forged, (points.frame(2) + 50, 1000))
    assert found is None or np.array_equal(found, whole[:, points.frame(2) + 50 :][:, :1000])


def test_damage_in_the_part_is_noticed():
    blob, whole, facts, points = sounds()[0]
    random = np.random.default_rng(0)
    for place in random.integers(len(blob) // 3, 2 * len(blob) // 3, 60).tolist():
        damaged = bytearray(blob)
        damaged[place] ^= 1 << (place % 8)
        half = whole.shape[1] // 2
        found = part(bytes(damaged), facts, points, (half // 2, half))
        assert found is None or np.array_equal(found, whole[:, half // 2 : half // 2 + half])
