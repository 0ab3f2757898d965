"""What does every collector need to be told?

The rule: a collector is a process of its own, so its configuration is plain data that travels as one JSON text. It names files
where secrets are, never the secrets. An unknown or a missing name is an error: a misspelt setting is never ignored.

Example: `CanaryConfig.from_json('{"system":"kafka","cluster_id":"c1","prober_id":"p1","spool":"landing","anchor":"b-1:5:6",...}')`.
"""

import dataclasses
import json
import types
import typing
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from pipelines.brokers.base import ClusterPlace
from pipelines.collect.spool import Limits, Spool
from pipelines.domain.clock import Anchor
from pipelines.domain.landing import WHOLE
from pipelines.errors import UsageError

NAMES = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}


@dataclass(frozen=True, slots=True, kw_only=True)
class CollectorConfig:
    """Who observes what, and where it is written down. `system` is the broker system's word, `anchor` is `Anchor.text()` of the clock
    that all collectors share; `boot_id` is new for each run."""

    system: str
    cluster_id: str
    prober_id: str
    spool: str
    anchor: str
    boot_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    rotate_ms: int = 500
    spool_bytes_max: int | None = None
    spool_reserve_bytes: int = 64 * 1024 * 1024
    status_seconds: float = 2.0

    @property
    def clock(self) -> Anchor:
        """The clock of all instants. Raises UsageError when the anchor is not one."""
        try:
            return Anchor.parse(self.anchor)
        except ValueError as error:
            raise UsageError(f"anchor {self.anchor!r} is not an anchor; expected CLOCK_ID:MONOTONIC_NS:UTC_NS") from error

    def open_spool(self, collector: str) -> Spool:
        """The spool of this run; use it as a context manager."""
        return Spool(
            directory=Path(self.spool),
            collector=collector,
            prober_id=self.prober_id,
            boot_id=self.boot_id,
            system=self.system,
            cluster_id=self.cluster_id,
            clock=self.clock,
            limits=Limits(rotate_us=self.rotate_ms * 1000, bytes_max=self.spool_bytes_max, reserve_bytes=self.spool_reserve_bytes),
        )

    def to_json(self) -> str:
        """The configuration as one line."""
        return json.dumps(dataclasses.asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The inverse of `to_json`. Raises UsageError that names what is wrong."""
        try:
            values = json.loads(text, object_pairs_hook=_each_once)
        except (ValueError, RecursionError) as error:
            raise UsageError(f"{cls.__name__}: not JSON: {error}") from error
        if not isinstance(values, dict):
            raise UsageError(f"{cls.__name__}: expected a JSON object, found {type(values).__name__}")
        hints = typing.get_type_hints(cls)
        fields = {one.name: one for one in dataclasses.fields(cls)}
        for name in values.keys() - fields.keys():
            raise UsageError(f"{cls.__name__}: {name!r} is not a setting; known are {', '.join(sorted(fields))}")
        for name, one in fields.items():
            has_default = one.default is not dataclasses.MISSING or one.default_factory is not dataclasses.MISSING
            if name not in values and not has_default:
                raise UsageError(f"{cls.__name__}: {name!r} is missing")
            if not has_default and values[name] == "":
                raise UsageError(f"{cls.__name__}: {name!r} is empty")
        return cls(**{name: _checked(cls.__name__, name, value, hints[name]) for name, value in values.items()})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig(CollectorConfig):
    """A collector that asks the cluster itself: a `ClusterPlace`, as it travels. `command_config` is the path of the user's file,
    `settings` are NAME=VALUE, a line for each value."""

    bootstrap: str
    command_config: str | None = None
    metrics: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()

    @property
    def place(self) -> ClusterPlace:
        """Where the cluster is. Raises UsageError for a setting that is not NAME=VALUE."""
        settings: dict[str, tuple[str, ...]] = {}
        for one in self.settings:
            name, equals, value = one.partition("=")
            if not equals:
                raise UsageError(f"the setting {one!r} is not NAME=VALUE")
            settings[name] = (*settings.get(name, ()), value)
        return ClusterPlace(
            system=self.system,
            bootstrap=self.bootstrap,
            command_config=Path(self.command_config) if self.command_config else None,
            metrics=self.metrics,
            settings=settings,
        )


def as_fields(place: ClusterPlace) -> dict[str, Any]:
    """The fields of a `ClusterConfig` from which `place` makes the same place again; the file's path is absolute."""
    return {
        "system": place.system,
        "bootstrap": place.bootstrap,
        "command_config": None if place.command_config is None else str(place.command_config.resolve()),
        "metrics": place.metrics,
        "settings": tuple(f"{name}={value}" for name, values in place.settings.items() for value in values),
    }


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    for name in names:
        if names.count(name) > 1:
            raise ValueError(f"{name!r} is here twice")
    return dict(pairs)


def _checked(owner: str, name: str, value: Any, hint: Any) -> Any:
    arms = typing.get_args(hint) if isinstance(hint, types.UnionType) else (hint,)
    for arm in arms:
        if arm is types.NoneType and value is None:
            return None
        if typing.get_origin(arm) is tuple and isinstance(value, list):
            item = typing.get_args(arm)[0]
            return tuple(_checked(owner, f"{name}[{index}]", one, item) for index, one in enumerate(value))
        if arm in (int, float) and type(value) in (int, arm) and not 0 <= value <= WHOLE.stop:
            raise UsageError(f"{owner}: {name} is {value!r}, expected a number that is not negative and has an end")
        if arm is float and type(value) is int:
            return float(value)
        if arm in NAMES and type(value) is arm and not (arm is str and "\x00" in value):
            return value
    wanted = " or ".join("null" if arm is types.NoneType else NAMES.get(arm, "a list") for arm in arms)
    raise UsageError(f"{owner}: {name} is {value!r}, expected {wanted}")
