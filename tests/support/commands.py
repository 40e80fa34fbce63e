"""Runs commands of the command line in this process."""

from headrace import cli


def runner(capsys, monkeypatch):
    """Run a command in this process. Returns exit code, standard output and standard error."""
    monkeypatch.setenv("COLUMNS", "300")

    def run_one(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return code, captured.out, captured.err

    return run_one
