"""Where in a YAML file does a value stand, so that an error can name the line?

The rule: every mapping is read through `Fields`, which is told what it may hold. A name that is not allowed, a name that is missing,
a name that comes twice and a value of another kind are errors that name the file, the line and what is allowed; nothing is ignored.

Example: `titel: x` in line 1 of drill.yml is "drill.yml:1: 'titel' is not allowed here; allowed are description, expect, ..., title".
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import yaml

from pipelines.errors import UsageError

T = TypeVar("T")
D = TypeVar("D")
SHOWN = 80
NULL = "tag:yaml.org,2002:null"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the file and where it stands."""

    node: yaml.Node
    file: str

    def error(self, text: str) -> UsageError:
        """What is wrong with it, with file and line."""
        return UsageError(f"{self.file}:{self.node.start_mark.line + 1}: {text}")

    def plain(self) -> Any:
        """The value as YAML means it: text, number, truth value, list or mapping."""
        loader = yaml.SafeLoader("")
        try:
            return loader.construct_object(self.node, deep=True)
        except (yaml.YAMLError, ValueError, TypeError, AttributeError, RecursionError) as error:
            # What looks like a number or a date and is none (2026-99-99) is an error of the constructor's own.
            raise self.error(f"cannot be read: {getattr(error, 'problem', None) or error}") from error

    def text(self) -> str:
        """A text that is not empty; a number is taken as it is written."""
        if not isinstance(self.node, yaml.ScalarNode) or not self.node.value.strip() or self.node.tag == NULL:
            raise self.error("expected a text")
        return " ".join(self.node.value.split())

    def number(self, least: float = 0, most: float = math.inf) -> float:
        """A number from `least` to `most`."""
        found = self.plain()
        if isinstance(found, bool) or not isinstance(found, int | float) or not least <= found <= most or found == math.inf:
            raise self.error(f"expected a number, {_range(least, most)}, found {self._shown()}")
        return found

    def flag(self) -> bool:
        """True or false."""
        found = self.plain()
        if not isinstance(found, bool):
            raise self.error(f"expected true or false, found {self._shown()}")
        return found

    def whole(self, least: int = 0, most: float = math.inf) -> int:
        """A whole number from `least` to `most`."""
        found = self.plain()
        if isinstance(found, bool) or not isinstance(found, int) or not least <= found <= most:
            raise self.error(f"expected a whole number, {_range(least, most)}, found {self._shown()}")
        return found

    def one_of(self, allowed: Iterable[str]) -> str:
        """A text that is one of some."""
        names = sorted(allowed)
        found = self.text()
        if found not in names:
            raise self.error(f"{found!r} is not known; one of {', '.join(names)}")
        return found

    def items(self) -> list["Value"]:
        """The items of a list; a value that is no list is a list of one."""
        if isinstance(self.node, yaml.SequenceNode):
            return [Value(one, self.file) for one in self.node.value]
        return [self]

    def fields(self, allowed: Iterable[str] | None = None, needed: Iterable[str] = ()) -> "Fields":
        """The value as a mapping that may hold these names (None: any) and must hold those."""
        if not isinstance(self.node, yaml.MappingNode):
            raise self.error(f"expected a mapping, found {self._shown()}")
        found: dict[str, tuple[Value, Value]] = {}
        names = None if allowed is None else sorted(allowed)
        for key_node, value_node in self.node.value:
            key = Value(key_node, self.file)
            name = key.text()
            if name in found:
                raise key.error(f"{name!r} is here twice")
            if names is not None and name not in names:
                raise key.error(f"{name!r} is not allowed here; allowed are {', '.join(names)}")
            found[name] = (key, Value(value_node, self.file))
        missing = [name for name in needed if name not in found]
        if missing:
            raise self.error(f"{missing[0]!r} is missing")
        return Fields(self, found)

    def _shown(self) -> str:
        if isinstance(self.node, yaml.MappingNode):
            return "a mapping"
        return "a list" if isinstance(self.node, yaml.SequenceNode) else repr(str(self.node.value)[:SHOWN])


@dataclass(frozen=True, slots=True)
class Fields:
    """A mapping of the file whose names are known to be allowed."""

    owner: Value
    found: dict[str, tuple[Value, Value]]

    def __contains__(self, name: str) -> bool:
        return name in self.found

    def __iter__(self) -> Iterator[tuple[str, Value]]:
        return ((name, value) for name, (_, value) in self.found.items())

    def __getitem__(self, name: str) -> Value:
        return self.found[name][1]

    def key(self, name: str) -> Value:
        """The name itself, to be complained of."""
        return self.found[name][0]

    def get(self, name: str, read: Callable[[Value], T], default: D) -> T | D:
        """What `read` makes of a value, or the default where there is none."""
        return read(self[name]) if name in self else default


def _range(least: float, most: float) -> str:
    return f"{least:g} or more" if most == math.inf else f"{least:g} to {most:g}"


def read(path: Path) -> Value:
    """The whole document of a file. Raises UsageError where it is no YAML, or empty."""
    try:
        node = yaml.compose(path.read_text(encoding="utf-8"), yaml.SafeLoader)
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, RecursionError) as error:
        said = "it is not UTF-8" if isinstance(error, UnicodeDecodeError) else "it is nested too deeply"
        raise UsageError(f"{path.name}: not YAML: {said}") from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = f":{mark.line + 1}" if mark else ""
        raise UsageError(f"{path.name}{line}: not YAML: {getattr(error, 'problem', None) or error}") from error
    if node is None:
        raise UsageError(f"{path.name}: is empty")
    return Value(node, path.name)
