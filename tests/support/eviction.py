"""Shared by test_eviction and the tests beside it."""


def put(cache, name, num_bytes=100):
    with cache.receive(name, num_bytes) as incoming:
        assert incoming is not None
        incoming.write(bytes(num_bytes))
