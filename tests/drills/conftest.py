"""Fixtures of the drills. All drills are slow tests."""

from pathlib import Path

import pytest

from tests.support.drills.scale import Drill, is_full


def pytest_collection_modifyitems(items):
    """Mark the drills of this folder as slow, without a time limit if all rounds are run."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)
            item.add_marker(pytest.mark.timeout(3600 if is_full() else 1200))


@pytest.fixture
def drill(request):
    """The drill of this test, named after it. Its row is written to the table if all rounds were run."""
    made = Drill(request.node.name.removeprefix("test_").replace("_", " "))
    yield made
    if is_full() and made.num_rounds:
        made.write(is_failed=request.node.stash.get(FAILED, False))


FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Record whether a drill failed, for its row in the table."""
    report = yield
    if report.when == "call":
        item.stash[FAILED] = report.failed
    return report
