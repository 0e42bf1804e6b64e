"""Prints the setting by which tests keep their files in memory, where there is room: they sync much to disk.

Nothing is printed where there is not; then they lie where Python puts files for a while.
"""

import os
import shutil
import subprocess
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 4 * 2**30
"""Bytes that have to be free; a run of all tests keeps some two thousand million."""


def place(memory: Path = MEMORY) -> Path | None:
    """The folder in memory, if it has room and programs may be started there, as tests do."""
    if "TMPDIR" in os.environ or not os.access(memory, os.W_OK) or shutil.disk_usage(memory).free < ROOM:
        return None
    with tempfile.TemporaryDirectory(dir=memory) as folder:
        program = Path(folder) / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o700)
        try:
            subprocess.run([program], check=True)
        except (OSError, subprocess.CalledProcessError):
            return None
    return memory


if __name__ == "__main__":
    found = place()
    print("" if found is None else f"TMPDIR={found}")
