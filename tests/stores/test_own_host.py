"""Requests with credentials stay on the hosts of their store."""

import pytest

from headrace.stores.own_host import NOWHERE, stays_on_own_host
from headrace.stores.storage import open_storage


def reached(endpoint, **environment):
    """The hosts that are reached without a proxy; all others are reached over a proxy that is nowhere."""
    options = stays_on_own_host(endpoint, environment)
    assert options["proxy_url"] == f"http://{NOWHERE}"
    return options["proxy_excludes"].split(",")


def test_a_store_of_ones_own_is_reached_and_amazon_is_not():
    assert reached("http://minio:9000")[0] == "minio"
    assert not any("amazon" in host for host in reached("http://minio:9000"))


def test_without_an_endpoint_amazon_is_reached():
    assert {"amazonaws.com", "amazonaws.com.cn"} <= set(reached(None))


@pytest.mark.parametrize(
    "name", ["AWS_ENDPOINT_URL_STS", "AWS_METADATA_ENDPOINT", "AWS_CONTAINER_CREDENTIALS_FULL_URI"]
)
def test_hosts_that_give_credentials_are_reached(name):
    assert "giver" in reached("http://minio:9000", **{name: "http://giver:80/path"})
    assert "169.254.169.254" in reached("http://minio:9000")


STORES = {"http": "http://minio:9000", "https": "https://minio.local", "amazon": None}
PROXIED = {
    ("http", "http_proxy"),
    ("https", "https_proxy"),
    ("amazon", "https_proxy"),
    *((store, "all_proxy") for store in STORES),
}


@pytest.mark.parametrize("spelled", [str.lower, str.upper])
@pytest.mark.parametrize("name", ["http_proxy", "https_proxy", "all_proxy"])
@pytest.mark.parametrize("store", STORES)
def test_only_a_proxy_that_reaches_the_store_is_left_as_it_is(store, name, spelled):
    proxy = {spelled(name): "http://proxy:3128"}
    assert (stays_on_own_host(STORES[store], proxy) == {}) == ((store, name) in PROXIED)
    assert stays_on_own_host(STORES[store], {spelled(name): ""}) != {}


NO_PROXIES = {
    "*": {"http", "https", "amazon"},
    "minio": {"http"},
    "localhost,.local,minio:9000": {"https"},
    ".amazonaws.com": {"amazon"},
    "amazonaws.com, other": {"amazon"},
    "other": set(),
    "": set(),
}


@pytest.mark.parametrize("no_proxy", NO_PROXIES)
@pytest.mark.parametrize("store", STORES)
def test_a_store_that_no_proxy_reaches_is_protected(store, no_proxy):
    environment = {"ALL_PROXY": "http://proxy:3128", "NO_PROXY": no_proxy}
    assert (stays_on_own_host(STORES[store], environment) != {}) == (store in NO_PROXIES[no_proxy])


def test_tokens_that_come_over_a_proxy_keep_it():
    environment = {"HTTPS_PROXY": "http://proxy:3128", "AWS_WEB_IDENTITY_TOKEN_FILE": "/token"}
    assert stays_on_own_host("http://minio:9000", environment) == {}
    assert stays_on_own_host("http://minio:9000", environment | {"NO_PROXY": "amazonaws.com"}) != {}


@pytest.mark.parametrize("allowed", ["", "true"])
def test_plain_http_is_allowed_for_a_store_of_plain_http_alone(monkeypatch, allowed):
    """A redirect from HTTPS to HTTP then ends in an error of the client, whatever AWS_ALLOW_HTTP says."""
    monkeypatch.setenv("AWS_ALLOW_HTTP", allowed)
    for endpoint, is_allowed in (("http://minio:9000", True), ("https://minio.local", False)):
        monkeypatch.setenv("AWS_ENDPOINT_URL", endpoint)
        options = open_storage("s3://bucket")._options("s3://bucket")
        assert options["client_options"].get("allow_http", False) is is_allowed
