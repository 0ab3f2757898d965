r"""What does a Java properties file say, and what does a JAAS line in it?

The rule: `parse` reads the syntax of `java.util.Properties.load` (which Kafka's own tools use for `--command-config`):
comments with `#` and `!`, `key=value`, `key:value` and `key value`, a backslash at the end of a line that continues it, `\t
\n \r \f \uXXXX` and any other escaped character as itself. `login` reads the one login module of a `sasl.jaas.config`, as
org.apache.kafka.common.security.JaasConfig does: class, flag, `name=value` with single or double quotes and backslash
escapes, comments, a semicolon.

Example: the lines `sasl.jaas.config=a.b.PlainLoginModule required \` and `  username="kate" password="p\"w";` are one entry;
its login is `Login("a.b.PlainLoginModule", {"username": "kate", "password": 'p"w'})`.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

BLANK = " \t\f"
LINE_END = re.compile(r"\r\n|\r|\n")
ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
JAAS_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
JAAS_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/ | (?P<sign>[=;]) | "(?P<double>(?:[^"\\\n]|\\.)*)" | '(?P<single>(?:[^'\\\n]|\\.)*)'
    | (?P<word>[^\s"'=;/]+)""",
    re.VERBOSE | re.DOTALL,
)
JAAS_ESCAPE = re.compile(r"\\([0-3][0-7]{0,2}|[4-7][0-7]?|.)", re.DOTALL)
FLAGS = ("required", "requisite", "sufficient", "optional")


class SyntaxFault(ValueError):
    """The text is not of the syntax; the message says what was expected, and never quotes a value (it may be a secret)."""

    def __init__(self, message: str, line: int = 0) -> None:
        super().__init__(message)
        self.line = line


@dataclass(frozen=True, slots=True)
class Entry:
    """One setting and the line (from 1) on which it starts. The value is left out of `repr`: it may be a secret."""

    key: str
    value: str = field(repr=False)
    line: int


@dataclass(frozen=True, slots=True)
class Login:
    """One login module of a JAAS configuration."""

    module: str
    options: dict[str, str] = field(repr=False)


def parse(text: str) -> list[Entry]:
    """The settings of a properties file, in order; where a key is given twice, the last one holds (here both are returned).

    Raises SyntaxFault for a malformed Unicode escape, the only thing that Java refuses.
    """
    entries = []
    lines = iter(enumerate(LINE_END.split(text), 1))
    for number, line in lines:
        logical = line.lstrip(BLANK)
        if not logical or logical[0] in "#!":
            continue
        while _is_continued(logical):
            _, following = next(lines, (0, ""))
            logical = logical[:-1] + following.lstrip(BLANK)
        try:
            key, value = _split(logical)
            entries.append(Entry(_unescaped(key), _unescaped(value), number))
        except SyntaxFault as fault:
            raise SyntaxFault(str(fault), number) from fault
    return entries


def login(text: str) -> Login:
    """The one login module of a `sasl.jaas.config`. Raises SyntaxFault when it is not exactly one."""
    tokens = _jaas_tokens(text)
    module = _next_word(tokens, "the class of a login module")
    flag = _next_word(tokens, "required")
    if flag.lower() not in FLAGS:
        raise SyntaxFault(f"after the login module comes one of {', '.join(FLAGS)}")
    options: dict[str, str] = {}
    while (name := _next_word(tokens, "an option or the semicolon that ends the login module")) != ";":
        if next(tokens, ("", ""))[1] != "=":
            raise SyntaxFault(f"option {name} has no value; expected {name}=...")
        sort, value = next(tokens, ("", ""))
        if sort not in ("word", "text"):
            raise SyntaxFault(f"option {name} has no value; expected {name}=...")
        options[name] = value
    if next(tokens, None) is not None:
        raise SyntaxFault("expected one login module, found text after its semicolon")
    return Login(module, options)


def _is_continued(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split(line: str) -> tuple[str, str]:
    """Key and value of a logical line, still escaped: the key ends at the first `=`, `:` or blank that is not escaped."""
    end = 0
    while end < len(line) and line[end] not in "=:" + BLANK:
        end += 2 if line[end] == "\\" else 1
    rest = line[end:].lstrip(BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(BLANK)
    return line[:end], rest


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text
    out = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character != "\\":
            out.append(character)
            continue
        escaped = text[position : position + 1]
        position += 1
        if escaped == "u":
            digits = text[position : position + 4]
            if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
                raise SyntaxFault("malformed \\uXXXX escape; expected four hexadecimal digits")
            out.append(chr(int(digits, 16)))
            position += 4
        else:
            out.append(ESCAPES.get(escaped, escaped))
    # What lies beyond 16 bits is written as two escapes, which are one character in Java and in Python.
    return "".join(out).encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")


def _jaas_tokens(text: str) -> Iterator[tuple[str, str]]:
    tokens: list[tuple[str, str]] = []
    position = 0
    while position < len(text):
        match = JAAS_TOKEN.match(text, position)
        if match is None:
            raise SyntaxFault("a quote is not closed, or a value with special characters is not in quotes")
        position = match.end()
        if match.lastgroup in ("double", "single"):
            tokens.append(("text", JAAS_ESCAPE.sub(_jaas_escape, match[match.lastgroup])))
        elif match.lastgroup is not None:
            tokens.append((match.lastgroup, match[match.lastgroup]))
    return iter(tokens)


def _jaas_escape(match: re.Match[str]) -> str:
    escaped = match[1]
    return chr(int(escaped, 8)) if escaped[0] in "01234567" else JAAS_ESCAPES.get(escaped, escaped)


def _next_word(tokens: Iterator[tuple[str, str]], expected: str) -> str:
    sort, value = next(tokens, ("", ""))
    if sort == "word" or value == ";":
        return value
    raise SyntaxFault(f"expected {expected}")
