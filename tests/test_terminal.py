"""Terminal output of a build that works or waits."""

from rich.console import Console

from building.terminal import TerminalProgress


def test_waiting_for_recently_changed_files_is_shown(capsys):
    progress = TerminalProgress(Console())
    progress.settling(3, 4.6)
    assert "waiting 5 s for 3 files that have just changed (source.settle_seconds)" in capsys.readouterr().out
