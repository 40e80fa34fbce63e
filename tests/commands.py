"""Running the command line in this process, for tests of its commands."""

from headrace import cli


def runner(capsys, monkeypatch):
    """Run a command here; gives exit code, standard output, standard error."""
    monkeypatch.setenv("COLUMNS", "300")

    def run_one(*arguments):
        code = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err + captured.out
        return code, captured.out, captured.err

    return run_one
