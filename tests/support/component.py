"""Shared by test_component and the tests beside it."""

from contextlib import contextmanager


@contextmanager
def loaded(sandbox):
    with sandbox.build_all_defs() as definitions:
        yield definitions


def keys_of(definitions):
    return {key.to_user_string() for key in definitions.resolve_asset_graph().get_all_asset_keys()}


def names_of(definitions):
    return sorted(sensor.name for sensor in definitions.sensors)
