"""Records of a run as JSON lines, to compare runs later."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from kvroute.errors import KvrouteError
from loadtest.live.record import Record


def save_records(records: Sequence[Record], path: Path) -> None:
    with path.open("w") as file:
        for record in records:
            file.write(json.dumps(asdict(record), separators=(",", ":")) + "\n")


def load_records(path: Path) -> list[Record]:
    """Raises KvrouteError naming file and line."""
    found = []
    try:
        lines = path.read_text().splitlines()
    except OSError as error:
        raise KvrouteError(f"{path}: cannot be read: {error.strerror}") from None
    for number, line in enumerate(lines, 1):
        try:
            fields = json.loads(line)
            fields["parts"] = [(float(at), int(count)) for at, count in fields["parts"]]
            found.append(Record(**fields))
        except (ValueError, TypeError, KeyError) as error:
            raise KvrouteError(f"{path}:{number}: no record of a load test: {error}") from None
    return found
