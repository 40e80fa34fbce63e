"""Runs the tests of a contract of `headrace.testing` for an implementation, to see which of them fail."""

import itertools

import pytest


def failures(contract, new_arguments):
    """The names of a contract's tests that fail; `new_arguments` gives the fixtures of one test."""
    return [name for name, test, more in _tests(contract) if _fails(test, new_arguments() | more)]


def new_folders(parent):
    """New empty folders, one after another."""
    for number in itertools.count():
        (folder := parent / str(number)).mkdir()
        yield folder


def _tests(contract):
    for name in dir(contract):
        if name.startswith("test_"):
            test = getattr(contract, name)
            marks = [mark.args for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
            for argument, values in marks or [("", [None])]:
                for value in values:
                    yield name, test, {argument: value} if argument else {}


def _fails(test, arguments):
    try:
        test(**arguments)
    except (Exception, pytest.fail.Exception):  # noqa: BLE001 - an implementation may raise anything
        return True
    return False
