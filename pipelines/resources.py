"""Where are the files that are not code: conf/ and sql/?

The rule: in a checkout they lie beside the packages, where people edit them; in an installed wheel they are shipped
inside this package (pyproject.toml, force-include). Nobody else may build such a path by hand.

Example: `resource("conf", "jars", "kafka.lock")` is `CHECKOUT/conf/jars/kafka.lock` in a checkout.
"""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def resource(*parts: str) -> Path:
    """The path of a shipped file or folder, given from the repository's root downwards. Existence is not checked."""
    checkout = _PACKAGE.parent
    in_checkout = (checkout / "pyproject.toml").is_file()
    return (checkout if in_checkout else _PACKAGE / "shipped").joinpath(*parts)
