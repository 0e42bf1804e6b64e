"""The place of a node: a number drawn for one folder on one machine, by which two copies of a kit differ."""

import json
from pathlib import Path
from secrets import token_hex

from clients.federation.kit import PRIVATE_FILE, Kit
from training.atomic_files import write_text

FILE = "place.json"  # in the kit's `private`, so that a copy of the kit has it, too
MACHINE = Path("/etc/machine-id")


def place_of(kit: Kit, machine: Path = MACHINE) -> str:
    """The kit's number at this place; drawn anew where the kit was copied or moved.

    It says nothing of the machine: what tells two places apart stays in the kit.

    Raises:
        CheckpointError: the disk does not take it.
    """
    path, where = kit.private / FILE, whereabouts(kit, machine)
    try:
        known = json.loads(path.read_text())
        if known["where"] == where and isinstance(known["place"], str):
            return str(known["place"])
    except (OSError, ValueError, KeyError, TypeError):
        pass  # there is none yet, or a damaged one
    place = token_hex(8)
    write_text(path, json.dumps({"place": place, "where": where}) + "\n")
    path.chmod(PRIVATE_FILE)
    return place


def whereabouts(kit: Kit, machine: Path) -> list[str]:
    """The machine, as far as the system has a number for it, and the kit's folder by name and on its disk."""
    number = machine.read_text().strip() if machine.is_file() else ""
    return [number, f"{kit.path}", f"{kit.path.stat().st_ino}"]
