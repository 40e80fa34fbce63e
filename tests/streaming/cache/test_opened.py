"""Open shards: errors name the file and the way out."""

import subprocess
import sys
import textwrap

OPEN_ONE = textwrap.dedent("""
    import resource, sys
    from pathlib import Path
    from headrace.streaming.cache.opened import FileShard
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    FileShard(Path(sys.argv[1]))
""")


def test_a_process_that_may_open_no_more_files_gets_an_error_with_a_remedy(file):
    done = subprocess.run([sys.executable, "-c", OPEN_ONE, str(file.path)], capture_output=True, text=True, check=False)
    assert "StorageError" in done.stderr
    assert "ulimit -n" in done.stderr
