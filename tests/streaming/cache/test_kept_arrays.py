"""Tables that are kept in the cache folder: made once, and again if they are damaged or do not fit."""

import numpy as np

from headrace.streaming.cache.kept_arrays import kept, kept_path


def maker(made, value):
    def make():
        made.append(value)
        return {"numbers": np.full(4, value)}, {"value": str(value)}

    return make


def parsed(table):
    arrays, metadata = table
    return arrays["numbers"].tolist() if metadata["value"] == "1" else None


def test_a_table_is_made_once_and_again_after_damage(tmp_path):
    made, path = [], kept_path(tmp_path, "windows", "origin", 1)
    assert [kept(path, parsed, maker(made, 1)) for _ in range(3)] == [[1] * 4] * 3
    assert made == [1]
    blob = bytearray(path.read_bytes())
    blob[-1] ^= 1
    path.write_bytes(blob)
    assert kept(path, parsed, maker(made, 1)) == [1] * 4
    assert made == [1, 1]


def test_a_table_that_does_not_fit_is_made_again(tmp_path):
    path = kept_path(tmp_path, "windows", "origin")
    kept(path, lambda table: table[0]["numbers"].tolist(), maker([], 2))
    made = []
    assert kept(path, parsed, maker(made, 1)) == [1] * 4
    assert made == [1]


def test_other_origins_have_other_paths(tmp_path):
    assert len({kept_path(tmp_path, "windows", *origin) for origin in (("a", 1), ("a", 2), ("b", 1))}) == 3
