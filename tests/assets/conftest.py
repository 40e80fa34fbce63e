"""Work that an asset gives to workers in these tests could be sent to a cluster."""

import pytest

from headrace_dagster.resources.workers import WorkersResource
from tests.support.sent_work import check_sent


@pytest.fixture(autouse=True, scope="module")  # not the tests of other folders in this process
def _work_can_be_sent():
    real = WorkersResource.run

    def run(self, work, progress, *, on_gpu=False):
        check_sent(work)
        return real(self, work, progress, on_gpu=on_gpu)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WorkersResource, "run", run)
        yield
