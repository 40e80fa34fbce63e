"""Secrets are never written anywhere: every kind of secret through every kind of failure."""

# ruff: noqa: TID251

import json
import logging
import smtplib
import ssl
from urllib.error import URLError
from urllib.parse import quote

import dagster as dg
import pytest
from dagster._core.scheduler.instigation import InstigatorType, TickData, TickStatus

from headrace.alerts import alerts as alerting
from headrace.alerts import delivery
from headrace.alerts.alerts import Alert, AlertChannel, send
from headrace.alerts.delivery import fault_of, smtp_address
from headrace.config.dataset import DatasetConfig
from headrace.config.operation import AlertsConfig
from headrace_dagster.assets.project_dataset import ProjectDataset
from headrace_dagster.sensors.alerts import alerts_sensor
from tests.support.receivers import Heard, smtp_server, web_server

ALERT = Alert("tones", "failed: audio_shards", "check index_matches_tar failed")
MARK = "hush"
PASSWORDS = [
    f"{before}{MARK}" for before in ("a/b", "a#b", "a?b", "a@b", "a:b", "a%b", "a[b", "a b", "a\\b", "ä", "\t")
]
WEB_ANSWERS = ["301", "302", "307", "401", "404", "500", "999", "garbage", "close", "hang"]
SMTP_ANSWERS = [
    *("banner 554", "banner nonsense", "hang", "EHLO 500", "EHLO close", "AUTH 535", "AUTH 454", "AUTH nonsense"),
    *("AUTH 334", "AUTH close", "MAIL 550", "RCPT 550", "RCPT close", "DATA 554", "DATA close"),
]
VARIABLES = ("HEADRACE_ALERTS_WEBHOOK", "HEADRACE_ALERTS_SMTP", "HEADRACE_ALERTS_SMTP_USER")
TO = {"email_to": ("a@example.org",)}


@pytest.fixture
def written(caplog, capfd, monkeypatch):
    """Everything that was written, as one string."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(delivery, "_TIMEOUT_SECONDS", 60)  # a busy machine is no reason for another fault

    def read() -> str:
        out, err = capfd.readouterr()
        return "\n".join([caplog.text, *map(str, [record.__dict__ for record in caplog.records]), out, err])

    return read


@pytest.fixture
def impatient(written, monkeypatch):
    """Requests end soon if the answer is that the server hangs."""

    def until(answer: str) -> None:
        if answer == "hang":
            monkeypatch.setattr(delivery, "_TIMEOUT_SECONDS", 0.3)

    return until


def has_leaked(text: str) -> bool:
    return MARK in text or MARK in text.replace("%", "")


@pytest.mark.parametrize("answer", WEB_ANSWERS)
def test_no_response_of_a_webhook_leaks_its_path(written, impatient, answer):
    impatient(answer)
    with web_server(Heard(answer)) as port:
        url = f"http://127.0.0.1:{port}/services/T 1/{MARK}?key={MARK}"
        faults = send(ALERT, AlertsConfig(), {"HEADRACE_ALERTS_WEBHOOK": url})
    assert list(faults) == [AlertChannel.WEBHOOK]
    assert not has_leaked(written() + str(faults))


@pytest.mark.parametrize(
    "url",
    [
        f"http://127.0.0.1:9/{MARK}",
        f"https://127.0.0.1:9/{MARK}",
        f"http://user:{MARK}@127.0.0.1:9/x",
        f"http://127.0.0.1:{MARK}/",
        f"http://127.0.0.1:99999999/{MARK}",
        f"http://[{MARK}/",
        f"http:///{MARK}",
        f"http://{MARK}..invalid/{MARK}",
        f"http://{MARK * 40}/",
        f"http://a b {MARK}/",
        f"http://127.0.0.1:9/{MARK}\r\nX: y",
        f"file:///{MARK}",
        f"ftp://127.0.0.1:9/{MARK}",
        f"{MARK}",
        f"http://\udcff{MARK}/",
    ],
)
def test_no_invalid_webhook_leaks(written, url):
    faults = send(ALERT, AlertsConfig(), {"HEADRACE_ALERTS_WEBHOOK": url})
    assert list(faults) == [AlertChannel.WEBHOOK]
    assert not has_leaked(written() + str(faults))


@pytest.mark.parametrize("secret", PASSWORDS)
@pytest.mark.parametrize("is_apart", [False, True])
def test_a_password_may_contain_any_character_and_does_not_leak_when_it_is_rejected(written, secret, is_apart):
    heard = Heard("AUTH 535")
    with smtp_server(heard) as port:
        place = f"127.0.0.1:{port}"
        url = f"smtp://{place}" if is_apart else f"smtp://me:{secret}@{place}"
        apart = {"HEADRACE_ALERTS_SMTP_USER": "me", "HEADRACE_ALERTS_SMTP_PASSWORD": secret} if is_apart else {}
        environment = {"HEADRACE_ALERTS_SMTP": url, **apart}
        faults = send(ALERT, AlertsConfig(**TO, insecure=True), environment)
    assert list(faults) == [AlertChannel.EMAIL]
    assert (secret in heard.plain) == secret.isascii()  # smtplib sends no others
    assert not has_leaked(written() + str(faults))


@pytest.mark.parametrize("answer", SMTP_ANSWERS)
def test_no_response_of_an_smtp_server_leaks_a_password(written, impatient, answer):
    impatient(answer)
    heard = Heard(answer)
    with smtp_server(heard) as port:
        url = f"smtp://me:{MARK}@127.0.0.1:{port}"
        faults = send(ALERT, AlertsConfig(**TO, insecure=True), {"HEADRACE_ALERTS_SMTP": url})
    assert list(faults) == [AlertChannel.EMAIL]
    assert not has_leaked(written() + str(faults))


@pytest.mark.parametrize(
    "place", ["127.0.0.1:9", "nowhere.invalid", "x:port", "x:0", "x:70000", "[::1", "", "/a/b", "x y"]
)
@pytest.mark.parametrize("scheme", ["smtp", "smtps", "http", ""])
def test_no_invalid_smtp_address_leaks(written, scheme, place):
    environment = {"HEADRACE_ALERTS_SMTP": f"{scheme}://me:{MARK}/{MARK}@{place}"}
    faults = send(ALERT, AlertsConfig(**TO), environment)
    assert list(faults) == [AlertChannel.EMAIL]
    assert not has_leaked(written() + str(faults))


def test_a_password_is_sent_without_tls_only_if_the_yaml_allows_it(written):
    for is_insecure in (False, True):
        heard = Heard()
        with smtp_server(heard) as port:
            environment = {"HEADRACE_ALERTS_SMTP": f"smtp://me:{MARK}@127.0.0.1:{port}"}
            faults = send(ALERT, AlertsConfig(**TO, insecure=is_insecure), environment)
        assert (MARK in heard.plain, len(heard.mails)) == (is_insecure, int(is_insecure))
        assert ("insecure" in str(faults)) == (not is_insecure)
    assert not has_leaked(written())


@pytest.mark.parametrize("answer", ["STARTTLS 454", "STARTTLS 220", "STARTTLS close"])
@pytest.mark.parametrize("is_insecure", [False, True])
def test_after_a_failed_starttls_no_password_is_sent(written, answer, is_insecure):
    heard = Heard(answer)
    with smtp_server(heard, offers_tls=True) as port:
        environment = {"HEADRACE_ALERTS_SMTP": f"smtp://me:{MARK}@127.0.0.1:{port}"}
        faults = send(ALERT, AlertsConfig(**TO, insecure=is_insecure), environment)
    assert list(faults) == [AlertChannel.EMAIL]
    assert MARK not in heard.plain
    assert not has_leaked(written() + str(faults))


def test_a_server_without_tls_at_an_address_with_tls_leaks_nothing(written):
    heard = Heard("500")
    with web_server(heard) as port, smtp_server(heard) as mail_port:
        environment = {
            "HEADRACE_ALERTS_WEBHOOK": f"https://127.0.0.1:{port}/{MARK}",
            "HEADRACE_ALERTS_SMTP": f"smtps://me:{MARK}@127.0.0.1:{mail_port}",
        }
        faults = send(ALERT, AlertsConfig(**TO), environment)
    assert list(faults) == [AlertChannel.WEBHOOK, AlertChannel.EMAIL]
    assert "TLS could not be set up" in faults[AlertChannel.EMAIL]
    assert MARK not in heard.plain
    assert not has_leaked(written() + str(faults))


@pytest.mark.parametrize(
    "error",
    [
        ValueError(MARK),
        OSError(MARK),
        OSError(13, MARK, MARK),
        URLError(MARK),
        URLError(ssl.SSLCertVerificationError(1, MARK)),
        smtplib.SMTPException(MARK),
        smtplib.SMTPDataError(554, MARK.encode()),
        UnicodeEncodeError("ascii", MARK, 0, 1, MARK),
        RecursionError(MARK),
        KeyError(MARK),
    ],
)
def test_texts_of_exceptions_are_not_passed_on(error):
    def fail():
        raise error

    assert MARK not in fault_of(fail)


def test_percent_codes_are_decoded_in_urls_but_not_in_separate_variables():
    found = smtp_address("smtps://me%40here:p%2Fw%23@[::1]:2525/")
    assert (found.user, found.password, found.host, found.port, found.is_tls) == ("me@here", "p/w#", "::1", 2525, True)
    assert smtp_address("smtp://mail.example.org", "me", "p%2F").password == "p%2F"
    assert smtp_address("smtp://me@mail.example.org", password="p").user == "me"
    assert smtp_address("smtp://me:p/#?@@mail.example.org").password == "p/#?@"
    assert MARK not in repr(smtp_address(f"smtp://me:{MARK}@x"))


def test_a_space_in_a_webhook_is_percent_encoded():
    heard = Heard("200")
    with web_server(heard) as port:
        assert send(ALERT, AlertsConfig(), {"HEADRACE_ALERTS_WEBHOOK": f" http://127.0.0.1:{port}/a b/ü\n"}) == {}
    assert heard.plain.startswith(f"POST /a%20b/{quote('ü')} ")


def test_a_message_that_cannot_be_written_is_an_error_and_the_other_channel_gets_it(written, monkeypatch):
    monkeypatch.setattr(alerting, "webhook_body", lambda alert: json.dumps({MARK: alert}))
    heard = Heard()
    with smtp_server(heard) as port:
        environment = {"HEADRACE_ALERTS_WEBHOOK": "http://x", "HEADRACE_ALERTS_SMTP": f"smtp://127.0.0.1:{port}"}
        faults = send(ALERT, AlertsConfig(**TO), environment)
    assert (list(faults), len(heard.mails)) == ([AlertChannel.WEBHOOK], 1)
    assert not has_leaked(written() + str(faults))


def test_file_names_that_are_not_utf8_do_not_prevent_an_alert():
    heard = Heard()
    odd = Alert("tones", "new\rrejects\n", "broken\udcff.wav: too short")
    with smtp_server(heard) as port:
        assert send(odd, AlertsConfig(**TO), {"HEADRACE_ALERTS_SMTP": f"smtp://127.0.0.1:{port}"}) == {}
    assert "broken?.wav" in heard.mails[0]
    assert "Subject: [headrace] tones: new rejects" in heard.mails[0]


@dg.op
def fails():
    raise dg.Failure("made up", allow_retries=False)


@dg.job(tags={"headrace/dataset": "tones"})
def failing():
    fails()


@pytest.mark.medium
def test_a_tick_ends_after_any_delivery_error_and_no_file_below_the_home_contains_a_secret(
    tmp_path, written, monkeypatch
):
    heard = Heard("500")
    config = DatasetConfig(name="tones", source={"uri": "a"}, output={"uri": "b"}, alerts=TO)
    sensor = alerts_sensor([ProjectDataset.named(config)])
    with web_server(heard) as port, dg.DagsterInstance.local_temp(str(tmp_path)) as instance:
        monkeypatch.setenv("HEADRACE_ALERTS_WEBHOOK", f"http://127.0.0.1:{port}/a b/{MARK}")
        monkeypatch.setenv("HEADRACE_ALERTS_SMTP", f"smtp://me:x/{MARK}#?@nowhere.invalid:x")
        cursor, reasons = None, []
        for number in range(8):
            if number == 1:
                failing.execute_in_process(instance=instance, raise_on_error=False)
            tick = instance.create_tick(
                TickData("alerts", "alerts", InstigatorType.SENSOR, TickStatus.STARTED, float(number))
            )
            result = sensor(dg.build_sensor_context(instance=instance, cursor=cursor))
            cursor, reason = result.cursor, result.skip_reason.skip_message
            instance.update_tick(tick.with_status(TickStatus.SKIPPED, skip_reason=reason, cursor=cursor))
            reasons.append(reason)
    given_up = "1 alerts given up so far, after 5 tries each"
    assert [reason.count("could not be delivered") for reason in reasons] == [0, 1, 1, 1, 1, 1, 0, 0]
    assert [given_up in reason for reason in reasons] == [False] * 5 + [True] * 3
    stored = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"could not be delivered" in blob for blob in stored)
    assert [blob for blob in stored if MARK.encode() in blob] == []
    assert not has_leaked(written())
