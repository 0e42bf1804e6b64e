"""News of the coordinator's node for whoever follows a run: from its own process to that of the job."""

import json
from pathlib import Path

NEWS = "news.jsonl"  # in the server kit's `private`


class News:
    """Lines of text in a file that one process appends to and another reads.

    Args:
        path: of the file; what is in it by now is no news.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = path.stat().st_size if path.exists() else 0

    def add(self, text: str) -> None:
        """Append one line."""
        with self._path.open("a") as file:
            file.write(json.dumps(text) + "\n")

    def new(self) -> list[str]:
        """The lines that were appended since this was last asked."""
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._read)
            content = file.read()
        whole = content[: content.rfind(b"\n") + 1]
        self._read += len(whole)
        return [json.loads(line) for line in whole.splitlines()]
