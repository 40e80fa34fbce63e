"""The sections of a data set's YAML that say how it runs: smoke test, schedules, runs, alerts, and when checks warn.

None of them changes what is made; `headrace.config.content` has those that do.
"""

from typing import Annotated, Self
from zoneinfo import available_timezones

from pydantic import AfterValidator, Field, field_validator, model_validator

from headrace.config.cron import checked_cron
from headrace.config.section import Section, Variable
from headrace.config.shares import share_of


def _checked_share(share: str | float) -> str | float:
    """The share, unchanged. Raises `ValueError` for anything but a number above 0 and at most 1."""
    share_of(share)
    return share


Cron = Annotated[str, AfterValidator(checked_cron)]


class LoaderConfig(Section):
    """The loader of the smoke test. These settings have no effect on other workers.

    Attributes:
        num_workers: worker processes; 0 reads in the main process.
        shuffle_buffer: samples in the shuffle buffer.
        prefetch_factor: batches that each worker prepares ahead.
        batch_size: samples per batch.
        reread_every: a smoke test reads all new shards and a part of the others; after this many tests, all have been
            read.
    """

    num_workers: int = Field(2, ge=0)
    shuffle_buffer: int = Field(100, ge=0)
    prefetch_factor: int = Field(2, ge=1)
    batch_size: int = Field(8, ge=1)
    reread_every: int = Field(10, ge=1)


class ScheduleConfig(Section):
    """A schedule.

    Attributes:
        cron: minute, hour, day of month, month, day of week.
        enabled: whether the schedule is on at first; it can be switched in Dagster's UI.
    """

    cron: Cron
    enabled: bool = True


class RefreshConfig(ScheduleConfig):
    """Schedule of the scan of the whole source."""

    cron: Cron = "0 3 * * *"


class VerifyConfig(ScheduleConfig):
    """Schedule of `verify`, which reads every byte of the newest snapshot, or of a part of its shards.

    Attributes:
        fraction: the share of the shards that each run verifies, such as `1/7`; the next run takes the next part.
    """

    cron: Cron = "0 4 * * 0"
    fraction: Annotated[float | str, AfterValidator(_checked_share)] = 1.0


class GcConfig(ScheduleConfig):
    """Schedule of garbage collection; `keep` is the number of snapshots to keep."""

    cron: Cron = "0 6 * * 0"
    enabled: bool = False
    keep: int = Field(10, ge=1)


class HistoryConfig(ScheduleConfig):
    """Schedule of the removal of old runs from Dagster's history.

    A run with the newest event of an asset is never removed.

    Attributes:
        days: runs younger than this are kept.
        keep: number of newest runs that are kept, whatever their age.
    """

    cron: Cron = "0 5 * * *"
    days: int = Field(30, ge=1)
    keep: int = Field(100, ge=0)


class SchedulesConfig(Section):
    """Actions that run at certain times; sensors react to changes.

    Attributes:
        time_zone: IANA name of the time zone of all schedules.
        refresh: scan the whole source; needed for sources that are too large for the sensor.
        verify: read every byte of the newest snapshot and compare digests.
        gc: remove files that no kept snapshot refers to; off by default.
        history: remove old runs from Dagster's history.
    """

    time_zone: str = "UTC"
    refresh: RefreshConfig = RefreshConfig()
    verify: VerifyConfig = VerifyConfig()
    gc: GcConfig = GcConfig()
    history: HistoryConfig = HistoryConfig()

    @field_validator("time_zone")
    @classmethod
    def _is_known(cls, name: str) -> str:
        if name not in available_timezones():
            raise ValueError("expected an IANA time zone, such as UTC or Europe/Berlin")
        return name


class RunsConfig(Section):
    """Limits of the runs that sensors start for the data set's partitions. Dagster has its own limits for all runs.

    Attributes:
        in_flight: the most partitions that are running or queued at a time.
        per_tick: the most partitions that one tick of the sensor starts.
        partitions_per_run: the most partitions that one run builds, one after the other. Each tick of the sensor asks
            Dagster once for each of them, so there is a bound.
    """

    in_flight: int = Field(16, ge=1)
    per_tick: int = Field(8, ge=1)
    partitions_per_run: int = Field(1, ge=1, le=64)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.partitions_per_run > min(self.in_flight, self.per_tick):
            raise ValueError(
                f"partitions_per_run is {self.partitions_per_run}: expected at most per_tick ({self.per_tick}) and "
                f"in_flight ({self.in_flight}), which count partitions too; raise these"
            )
        return self


class AlertsConfig(Section):
    """Recipients of alerts. Secrets are in environment variables; the keys here name these variables.

    Attributes:
        webhook: variable with the URL of a Slack-compatible webhook; nothing is sent if it has no value.
        smtp: variable with `smtp://user:password@host:587` (`smtps://` for TLS from the start).
        smtp_user: variable with the user name, if the URL does not have it.
        smtp_password: variable with the password, not percent-encoded, if the URL does not have it.
        insecure: whether the password may be sent to a server without TLS.
        email_from: sender of the e-mails.
        email_to: recipients; without any, no e-mail is sent.
    """

    webhook: Variable = "HEADRACE_ALERTS_WEBHOOK"
    smtp: Variable = "HEADRACE_ALERTS_SMTP"
    smtp_user: Variable = "HEADRACE_ALERTS_SMTP_USER"
    smtp_password: Variable = "HEADRACE_ALERTS_SMTP_PASSWORD"  # noqa: S105 - the name of a variable
    insecure: bool = False
    email_from: str = "headrace@localhost"
    email_to: tuple[str, ...] = ()


class DriftConfig(Section):
    """Limits of a catalog's drift from the last snapshots, as shares (0.5 is 50%); beyond them, a check warns.

    Attributes:
        hours: growth of the total duration.
        durations: change of the 10th, 50th or 90th percentile of the recordings' durations.
        rejected: growth of the share of rejected files.
    """

    hours: float = Field(0.5, ge=0)
    durations: float = Field(0.5, ge=0)
    rejected: float = Field(0.05, ge=0)
