"""How is a Kafka message that no client library knows read and written? By Kafka's own definition of it.

The rule: the JARs of the brokers carry the definition of every message and of every metadata record as JSON
(`common/message`, `common/metadata`); they are read from the pinned JARs at run time and drive kafka-python's schema
machinery. So the decoder is as new as the JARs. A record of a version that the definition does not know is an error, never a
guess: fields that are added in the middle would shift all that follow.

Example: `Definitions.of_jars(metadata_jar).record(5, 0, b"...")` is `{"partition_id": 0, "isr": [1, 2], "leader": 2, ...}`, a
PartitionChangeRecord, with the definition's defaults for the fields that were left out.
"""

import io
import json
import re
import struct
import zipfile
from pathlib import Path
from typing import Any, Self

from kafka.protocol.schemas import StructField

from pipelines.errors import RetryableError, UsageError

METADATA_FOLDER = "common/metadata/"
MESSAGE_FOLDER = "common/message/"
COMMENT = re.compile(r"(?m)^\s*//.*$")
Fields = dict[str, Any]


class UnknownRecord(RetryableError):
    """A message of a type or version that the definitions do not know: the cluster is newer than our JARs."""


class Definition:
    """One message: its name, its versions, and the way to and from bytes. Field names are written_like_this."""

    def __init__(self, schema: Fields) -> None:
        self.name: str = schema["name"]
        self.api_key: int = schema.get("apiKey", -1)
        # Records without fields (NoOpRecord) are not something that the schema machinery takes.
        self._struct = StructField(schema) if schema.get("fields") else None
        low, _, high = schema["validVersions"].partition("-")
        self.versions = range(int(low), int(high or low) + 1)
        # By the names that kafka-python gives them, so that a wire negotiates both alike.
        self.API_KEY, self.min_version, self.max_version = self.api_key, self.versions[0], self.versions[-1]
        flexible = schema["flexibleVersions"].rstrip("+")
        self._flexible_from = int(flexible) if flexible.isdigit() else 32768

    def decode(self, data: bytes | memoryview, version: int) -> Fields:
        """The fields of a message; absent optional ones have their defaults. Raises UnknownRecord."""
        if version not in self.versions:
            raise UnknownRecord(
                f"the cluster writes {self.name} in version {version}, the pinned Kafka JARs know up to {self.versions[-1]};"
                " pin newer ones in conf/jars"
            )
        if self._struct is None:
            return {}
        is_flexible = version >= self._flexible_from
        try:
            fields: Fields = self._struct.decode(io.BytesIO(data), version=version, compact=is_flexible, tagged=is_flexible)
        except (struct.error, ValueError, IndexError, TypeError) as error:
            raise UnknownRecord(f"{self.name} version {version} cannot be read: {error}") from error
        for name, field in self._struct.fields.items():
            if name not in fields:
                fields[name] = field.default
        return fields

    def encode(self, fields: Fields, version: int) -> bytes:
        """The bytes of a message; every untagged field must be given."""
        is_flexible = version >= self._flexible_from
        if self._struct is None:
            return b""
        return bytes(self._struct.encode(fields, version=version, compact=is_flexible, tagged=is_flexible))


class Definitions:
    """The definitions of some JARs, by name, and the metadata records by their key."""

    def __init__(self, schemas: list[Fields]) -> None:
        every = [Definition(schema) for schema in schemas]
        self._by_name = {one.name: one for one in every}
        self._records = {one.api_key: one for one, schema in zip(every, schemas, strict=True) if schema["type"] == "metadata"}

    @classmethod
    def of_jars(cls, *jars: Path) -> Self:
        """Reads every definition of a metadata record, and those messages that Lastack needs beyond kafka-python's.

        Raises UsageError when a JAR is not there or holds none.
        """
        schemas = [schema for jar in jars for schema in _schemas(jar)]
        if not schemas:
            raise UsageError(f"{', '.join(map(str, jars))} holds no definitions; expected kafka-metadata and kafka-clients JARs")
        return cls(schemas)

    def message(self, name: str) -> Definition:
        """The definition of that name. Raises UsageError when the JARs have none."""
        if name not in self._by_name:
            raise UsageError(f"the pinned Kafka JARs define no {name}; expected those of Kafka 3.3 or newer")
        return self._by_name[name]

    def record(self, api_key: int, version: int, data: bytes | memoryview) -> Fields:
        """The fields of a metadata record, with its name under `type`. Raises UnknownRecord."""
        definition = self._records.get(api_key)
        if definition is None:
            raise UnknownRecord(f"the cluster writes metadata records of type {api_key}, which the pinned Kafka JARs do not know")
        return {"type": definition.name, **definition.decode(data, version)}


MESSAGES = ("FetchSnapshotRequest", "FetchSnapshotResponse", "LeaderChangeMessage", "SnapshotHeaderRecord")


def _schemas(jar: Path) -> list[Fields]:
    wanted = {f"{MESSAGE_FOLDER}{name}.json" for name in MESSAGES}
    try:
        with zipfile.ZipFile(jar) as archive:
            return [
                _schema(archive.read(name).decode())
                for name in archive.namelist()
                if name in wanted or (name.startswith(METADATA_FOLDER) and name.endswith(".json"))
            ]
    except (OSError, zipfile.BadZipFile) as error:
        raise UsageError(f"{jar}: not a JAR that can be read: {error}; fetch it again") from error


def _schema(text: str) -> Fields:
    """Kafka's definitions are JSON with comment lines; structures that are used twice are defined at the end."""
    schema: Fields = json.loads(COMMENT.sub("", text))
    common = {one["name"]: one["fields"] for one in schema.get("commonStructs", [])}
    _fill_in(schema.get("fields", []), common)
    return schema


def _fill_in(fields: list[Fields], common: Fields) -> None:
    for one in fields:
        name = one["type"].removeprefix("[]")
        if name in common and "fields" not in one:
            one["fields"] = common[name]
        _fill_in(one.get("fields", []), common)
