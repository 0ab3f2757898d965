"""What does the stream say of itself? HOME/stream/progress.json, replaced whole by atomic rename (read by `domain.health`).

Example: after batch 12, `{"format":1,"batch_id":12,"state":"running","rows":123,"batch_ms":2345,"landing_files_waiting":0,...}`.
"""

import json
import time
from pathlib import Path
from typing import Any


class Progress:
    """The file of one run of the stream. Safe for use from several threads, the last one wins."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.values: dict[str, Any] = {"format": 1, "batch_id": None, "error": None, "started_at_us": time.time_ns() // 1000}

    def write(self, **values: Any) -> None:
        """Replaces the file; values that are not given stay as they were."""
        self.values = self.values | values | {"written_at_us": time.time_ns() // 1000}
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.values), encoding="utf-8")
        part.replace(self.path)
