"""Durations are read as people write them, and refused in words that help."""

import pytest

from pipelines.durations import seconds
from pipelines.errors import UsageError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("90s", 90.0),
        ("2m", 120.0),
        ("1h30m", 5_400.0),
        ("500ms", 0.5),
        ("1.5h", 5_400.0),
        (" 2M ", 120.0),
        ("1d", 86_400.0),
        ("1m500ms", 60.5),
    ],
)
def test_a_number_with_its_unit_is_a_duration(text: str, expected: float) -> None:
    assert seconds("--for", text) == expected


@pytest.mark.parametrize(
    "text", ["", " ", "90", "2 minutes", "m", "-5s", "1h 30m", "5x", "1e3s", "s5", "0s", "0m0s", "inf", "nan", "9" * 400 + "d"]
)
def test_anything_else_is_refused_with_the_option_and_an_example(text: str) -> None:
    with pytest.raises(UsageError) as refused:
        seconds("--for", text)
    assert refused.value.exit_code == 2
    assert str(refused.value).startswith("--for: ")
    assert "such as 90s, 2m or 1h30m" in str(refused.value)
    assert len(str(refused.value)) < 200


def test_one_that_is_too_short_says_what_is_needed() -> None:
    assert seconds("--for", "10s", least=10.0) == 10.0
    with pytest.raises(UsageError, match=r"--for: '9s' is too short; at least 10 s are needed"):
        seconds("--for", "9s", least=10.0)
