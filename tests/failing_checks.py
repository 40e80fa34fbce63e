"""Makes asset checks of shards fail without damaging a shard."""

from headrace_dagster.assets.compared import Compared, verdict


def fail_index_check(monkeypatch, partition=None):
    """Make `index_matches_tar` fail, also in the run that builds the partition, where it reads no shard.

    With a partition, only the check of this one fails.
    """
    real = Compared.verdict

    def made_up(self, name, faults, numbers):
        if name == "index_matches_tar" and partition in {None, self.partition}:
            return verdict(["a.tar: made up"], numbers, name, self.key)
        return real(self, name, faults, numbers)

    monkeypatch.setattr(Compared, "verdict", made_up)
