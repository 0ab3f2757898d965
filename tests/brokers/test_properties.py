"""A properties file and a JAAS line say to us what they say to Java."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines.brokers.kafka.properties import Entry, Login, SyntaxFault, login, parse

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a=b", [("a", "b", 1)]),
        ("a:b", [("a", "b", 1)]),
        ("a b", [("a", "b", 1)]),
        ("  a \t=\f b ", [("a", "b ", 1)]),
        ("a", [("a", "", 1)]),
        ("a=", [("a", "", 1)]),
        ("a==b", [("a", "=b", 1)]),
        ("a = = b", [("a", "= b", 1)]),
        ("# a=b\n! c=d\n\n  # e=f\ng=h", [("g", "h", 5)]),
        ("a=b # no comment", [("a", "b # no comment", 1)]),
        ("a=b\\\n   c\nd=e", [("a", "bc", 1), ("d", "e", 3)]),
        ("a=b\\\\\nc=d", [("a", "b\\", 1), ("c", "d", 2)]),
        ("a=b\\\r\n  c\rd=e\r\n", [("a", "bc", 1), ("d", "e", 3)]),
        ("a=b\\\n# not a comment", [("a", "b# not a comment", 1)]),
        ("a=b\\", [("a", "b", 1)]),
        (r"a\ b\:c\=d=e", [("a b:c=d", "e", 1)]),
        (r"a=\t\n\r\f\q\"\\", [("a", '\t\n\r\fq"\\', 1)]),
        ("a=\\u00e4\\u20AC", [("a", "ä€", 1)]),
        ("a=1\na=2", [("a", "1", 1), ("a", "2", 2)]),
        ("=b", [("", "b", 1)]),
    ],
)
def test_properties_are_read_as_java_reads_them(text: str, expected: list[tuple[str, str, int]]) -> None:
    assert [(one.key, one.value, one.line) for one in parse(text)] == expected


def test_a_malformed_escape_is_a_fault_on_its_line() -> None:
    with pytest.raises(SyntaxFault, match="four hexadecimal digits") as caught:
        parse("a=b\nc=\\u12")
    assert caught.value.line == 2


@given(st.text(min_size=1), st.text())
def test_what_is_escaped_comes_back(key: str, value: str) -> None:
    escaped = ["".join(f"\\u{unit:04x}" for unit in _utf16(text)) for text in (key, value)]

    (entry,) = parse("=".join(escaped))

    assert (entry.key, entry.value) == (key, value)


def _utf16(text: str) -> list[int]:
    data = text.encode("utf-16-be")
    return [int.from_bytes(data[index : index + 2]) for index in range(0, len(data), 2)]


def test_no_value_shows_in_a_repr() -> None:
    assert "secret" not in repr(Entry("sasl.password", "secret", 1))
    assert "secret" not in repr(login(f'{PLAIN} required username="u" password="secret";'))


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="kate" password="pw";', {"username": "kate", "password": "pw"}),
        (f"{PLAIN} required username='kate' password=pw ;", {"username": "kate", "password": "pw"}),
        (f'{PLAIN} REQUIRED username = "k" /* why */ password="a//b"; // end', {"username": "k", "password": "a//b"}),
        (rf'{PLAIN} required password="q\"\\\t\101;=";', {"password": 'q"\\\tA;='}),
        (f"{PLAIN} optional ;", {}),
    ],
)
def test_a_login_module_is_read_as_kafka_reads_it(text: str, options: dict[str, str]) -> None:
    assert login(text) == Login(PLAIN, options)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "the class of a login module"),
        (PLAIN, "required"),
        (f"{PLAIN} needed;", "comes one of required"),
        (f"{PLAIN} required username;", "username has no value"),
        (f"{PLAIN} required username=;", "username has no value"),
        (f'{PLAIN} required password="secret;', "a quote is not closed"),
        (f'{PLAIN} required password="pw"', "semicolon"),
        (f"{PLAIN} required; {PLAIN} required;", "one login module"),
    ],
)
def test_a_broken_login_module_says_what_is_missing_and_no_secret(text: str, expected: str) -> None:
    with pytest.raises(SyntaxFault, match=expected) as caught:
        login(text)
    assert "secret" not in str(caught.value)
