"""Finds what an object lacks of a protocol."""


def missing_members(value: object, protocol: type) -> list[str]:
    """Names of a protocol that an object lacks. Those that it hands on by `__getattr__` are there.

    (`isinstance` sees these in Python 3.11 only.)
    """
    names = {name for one in protocol.__mro__ for name in vars(one) if not name.startswith("_")}
    return sorted(name for name in names if not hasattr(value, name))
