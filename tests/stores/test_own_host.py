"""Requests with credentials stay on the hosts of their store."""

import pytest

from headrace.stores.own_host import NOWHERE, stays_on_own_host


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


@pytest.mark.parametrize("name", ["http_proxy", "HTTPS_PROXY", "all_proxy"])
def test_a_proxy_in_the_environment_is_left_as_it_is(name):
    assert stays_on_own_host("http://minio:9000", {name: "http://proxy:3128"}) == {}
    assert stays_on_own_host("http://minio:9000", {name: ""}) != {}
