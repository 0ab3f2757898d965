"""Which JARs do the brokers and Spark need, and are they the very ones that were pinned?

`conf/jars/<name>.lock` holds one line per JAR: its Maven coordinate and the SHA-256 of its bytes. `ensure(name)` returns
them all as files in a cache outside the checkout, fetching what is missing.

Example: `ensure("kafka").class_path` costs 60 MB once, and a few milliseconds on every later run.
"""

from pipelines.jars.cache import JarSet, cache_folder, ensure, missing
from pipelines.jars.lock import SETS, Jar

__all__ = ["SETS", "Jar", "JarSet", "cache_folder", "ensure", "missing"]
