"""Where ZooKeeper is said to be is checked before anybody is asked, and a password in it is not repeated."""

import pytest

from pipelines.brokers.kafka.znodes import Znodes, check_connect
from pipelines.errors import UsageError


@pytest.mark.parametrize("connect", ["a", "a:2181", "a:2181,b:2181/kafka/one", "[::1]:2181"])
def test_addresses_as_zookeeper_connect_has_them_are_taken(connect: str) -> None:
    check_connect(connect)


@pytest.mark.parametrize("connect", ["", "/kafka", "a:2181,", "a:x", "a:99999", "a:-1"])
def test_what_is_no_address_is_quoted_with_what_was_expected(connect: str) -> None:
    with pytest.raises(UsageError, match="not an address; expected HOST:PORT"):
        check_connect(connect)


def test_a_password_is_refused_and_never_quoted() -> None:
    with pytest.raises(UsageError, match="has an @ in it") as error:
        Znodes("user:s3cret@a:2181/kafka")
    assert "s3cret" not in str(error.value)
