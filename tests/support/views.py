"""Shared by test_views and the tests beside it."""


def number(key):
    return int(key.removeprefix("clip"))


def chosen(key):
    """0 for most, one copy or more of some; none of the clips 20 to 39, so four shards hold none."""
    own = number(key)
    return 0 if 20 <= own < 40 else (3 if own % 7 == 0 else own % 2)
