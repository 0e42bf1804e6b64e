"""Killing job processes of a node that outlived the node's own process.

FLARE starts each job's process in a session of its own. One whose node was killed before the job began never
hears that its node is gone: it asks for it for ever. So every process of a kit carries the kit's path in its
environment, and the node ends what it finds of itself before it starts, and after it has ended.
"""

import contextlib
from pathlib import Path

import psutil

KIT_VARIABLE = "DERMFED_KIT"  # in the environment of all that a node starts
ENDING = 10.0  # seconds that a killed process may take to be gone


def end_stale_processes(kit: Path) -> int:
    """Kill all processes that were started for this kit; returns how many there were.

    They may end at any instant: a run is crash-exact.
    """
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if process.environ().get(KIT_VARIABLE) == f"{kit}":
                process.kill()
                found.append(process)
    psutil.wait_procs(found, timeout=ENDING)
    return len(found)
