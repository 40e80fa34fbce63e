"""Terminal output of a build that works or waits."""

from rich.console import Console

from headrace_dagster.build_command.terminal import TerminalProgress


def test_waiting_for_recently_changed_files_is_shown(capsys):
    progress = TerminalProgress(Console())
    progress.settling(3, 4.6)
    assert "waiting 5 s for 3 files that have just changed (source.settle_seconds)" in capsys.readouterr().out


def test_files_that_an_interrupted_scan_has_read_are_counted(capsys):
    progress = TerminalProgress(Console())
    progress.resuming(12)
    progress.resuming(1)
    lines = capsys.readouterr().out.splitlines()
    assert lines == [
        f"{files} read by a scan that was interrupted; it goes on from there"
        for files in ("12 files were", "1 file was")
    ]
