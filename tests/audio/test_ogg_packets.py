"""Packets of Opus are as long as RFC 6716, table 2, says; what pages hold of them is counted at their ends."""

import pytest

from headrace.audio.ogg_packets import opus_samples

SPEECH, BOTH, MUSIC = (10, 20, 40, 60), (10, 20), (2.5, 5, 10, 20)  # milliseconds
LENGTHS = [*SPEECH * 3, *BOTH * 2, *MUSIC * 4]


def page(*packets, is_cut=False):
    """A page of packets, the last of which goes on where `is_cut`."""
    lacings = b"".join(bytes([255] * (len(packet) // 255) + [len(packet) % 255]) for packet in packets)
    lacings = lacings[:-1] if is_cut else lacings
    return bytes(26) + bytes([len(lacings)]) + lacings + b"".join(packets)


@pytest.mark.parametrize("mode", range(32))
def test_packets_of_each_mode(mode):
    one, two, also_two, many = (bytes([mode << 3 | code, 0x80 | 3]) + bytes(9) for code in range(4))
    samples = LENGTHS[mode] * 48
    assert opus_samples(page(one)) == samples
    assert opus_samples(page(two)) == opus_samples(page(also_two)) == 2 * samples
    assert opus_samples(page(many)) == 3 * samples
    assert opus_samples(page(one, many, two)) == 6 * samples


def test_long_short_and_cut_packets():
    long, alone = bytes([31 << 3]) + bytes(600), bytes([31 << 3])
    assert opus_samples(page(long, alone, alone)) == 3 * 960
    assert opus_samples(page(alone, long[:510], is_cut=True)) == 960
    assert opus_samples(page(b"", alone)) == 960
    assert opus_samples(page()) == 0
