"""Makes asset checks of shards fail without damaging a shard."""

from headrace_dagster.assets.build_comparison import BuildComparison, verdict


def fail_index_check(monkeypatch, partition=None):
    """Make `index_matches_tar` fail, also in the run that builds the partition, where it reads no shard.

    With a partition, only the check of this one fails.
    """
    real = BuildComparison.verdict

    def made_up(self, name, faults, numbers):
        if name == "index_matches_tar" and partition in {None, self.partition}:
            return verdict(["a.tar: made up"], numbers, name, self.key)
        return real(self, name, faults, numbers)

    monkeypatch.setattr(BuildComparison, "verdict", made_up)
