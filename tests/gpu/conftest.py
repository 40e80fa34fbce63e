"""With HEADRACE_FAKE_CUDA in the environment, the tests of this folder run without a GPU."""

import os

from tests.support import fake_cuda

if os.environ.get("HEADRACE_FAKE_CUDA"):
    fake_cuda.install()
