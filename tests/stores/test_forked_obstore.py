"""A forked process loads its own copy of obstore, and neither uses nor frees the one that it inherits."""

import os
import sys
from importlib.machinery import PathFinder

import pytest

from headrace.errors import ConfigError
from headrace.stores import forked_obstore
from headrace.stores.forked_obstore import _OwnCopy
from headrace.stores.storage import open_storage


def test_a_child_has_its_own_library_and_the_parent_keeps_its_own():
    storage = open_storage("memory://")
    storage.write("a", b"x")
    inherited = sys.modules["obstore._obstore"]
    child = os.fork()
    if not child:
        code = 1
        try:
            if "obstore" in sys.modules or "obstore._obstore" in sys.modules:
                os._exit(2)
            own = open_storage("memory://")
            own.write("b", b"y")
            is_own = own.read("b") == b"y" and sys.modules["obstore._obstore"] is not inherited
            code = 0 if is_own else 3
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert sys.modules["obstore._obstore"] is inherited
    assert storage.read("a") == b"x"


def test_other_modules_are_left_to_python():
    finder = _OwnCopy()
    assert finder.find_spec("json") is None
    assert finder.find_spec("obstore._obstore") is None  # nothing was copied: the package was not looked up


def test_a_system_without_files_in_memory_is_an_error_that_says_what_to_do(monkeypatch):
    def refuse(name):
        raise OSError("not allowed")

    monkeypatch.setattr(forked_obstore.os, "memfd_create", refuse, raising=False)
    with pytest.raises(ConfigError, match=r"not allowed.*multiprocessing_context='forkserver'"):
        forked_obstore._copy_of_library(PathFinder.find_spec("obstore"))
