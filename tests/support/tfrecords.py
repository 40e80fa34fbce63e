"""Writes TFRecord files of `tf.train.Example`, from the published form."""

import gzip
import struct


def varint(value):
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*found, value])


def field(number, content):
    return varint(number << 3 | 2) + varint(len(content)) + content


def example(features, *, packed=True):
    """An Example of lists of bytes, floats or integers by name."""
    entries = [
        field(1, field(1, name.encode()) + field(2, _feature(values, packed))) for name, values in features.items()
    ]
    return field(1, b"".join(entries))


def _feature(values, packed):
    if not values or isinstance(values[0], bytes):
        return field(1, b"".join(field(1, value) for value in values))
    if isinstance(values[0], float):
        singles = [struct.pack("<f", value) for value in values]
        return field(
            2, field(1, b"".join(singles)) if packed else b"".join(varint(1 << 3 | 5) + one for one in singles)
        )
    numbers = [varint(value) for value in values]
    return field(3, field(1, b"".join(numbers)) if packed else b"".join(varint(1 << 3) + one for one in numbers))


def slow_crc32c(data):
    """CRC-32C, bit by bit."""
    state = 0xFFFFFFFF
    for byte in data:
        state ^= byte
        for _ in range(8):
            state = state >> 1 ^ (0x82F63B78 if state & 1 else 0)
    return state ^ 0xFFFFFFFF


def masked(data, crc=slow_crc32c):
    value = crc(data)
    return struct.pack("<I", ((value >> 15 | value << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def record(data, crc=slow_crc32c):
    length = struct.pack("<Q", len(data))
    return length + masked(length, crc) + data + masked(data, crc)


def write_records(path, records, crc=slow_crc32c):
    """Write a file; GZIP if it is called so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"".join(record(one, crc) for one in records)
    path.write_bytes(gzip.compress(content, mtime=0) if path.suffix == ".gz" else content)
