"""The CRC-32 of bytes: isal's implementation, several times as fast as zlib's, or zlib's where isal is not installed.

Both give the same number.
"""

try:
    from isal.isal_zlib import crc32
except ImportError:  # there are no wheels for this processor
    from zlib import crc32

__all__ = ["crc32"]
