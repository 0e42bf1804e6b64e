"""The tutorials, one after the other in one folder, as their readers would type them."""

import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TUTORIALS = ("hospital-engineer", "promoter", "app-developer", "two-people")
PORT = "3000"


def blocks(page: str, kind: str) -> list[str]:
    """What the reader types, or saves."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page, flags=re.MULTILINE | re.DOTALL)


def free_port() -> str:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return str(server.getsockname()[1])


def typed(page: str, folder: Path) -> str:
    """Save and type what a page says, in `folder`; gives what is printed."""
    for job in blocks(page, "yaml"):
        (folder / "job.yaml").write_text(job)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "BENTOML_HOME": str(folder / "bentoml"),
        "DERMFED_CACHE": str(folder / "cache"),
    }
    script = "\n".join(
        ["set -euo pipefail", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT", *blocks(page, "bash")]
    )
    ended = subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, f"{page.partition(chr(10))[0]}: {ended.stdout}{ended.stderr}"
    return ended.stdout + ended.stderr


@pytest.mark.long
def test_the_tutorials_lead_from_pictures_to_an_answer(tmp_path):
    port = free_port()
    said = {}
    for name in TUTORIALS:
        page = (ROOT / "docs" / "tutorials" / f"{name}.md").read_text().replace(PORT, port)
        said[name] = typed(page, tmp_path)
    assert re.search(r"dark .*\n", said["hospital-engineer"])
    assert "GateRefusal" in said["promoter"]
    assert "nothing wrong" in said["promoter"]
    assert "first, version" in said["app-developer"]
    people = said["two-people"]
    assert "GateRefusal: versions 1, 2, 3, 4 of first cannot go to demonstration: gate approvals" in people
    for action in ("overriding the gates for", "this gate set of first under demonstration", "adding carla"):
        assert re.search(
            rf"^ApprovalsMissing: {action}.* takes the approval of 1 person other than olga", people, re.M
        )
    assert "ben (signed)  approved versions 1, 2, 3, 4 for demonstration" in people
    assert "olga (signed)  promoted versions 1, 2, 3, 4, demonstration: release none -> 1" in people
    assert "(not signed)" not in people.partition("ben (signed)")[2]
    assert "4 versions, nothing wrong" in people
    assert (tmp_path / "first-release.json").is_file()


@pytest.mark.long
def test_a_table_of_ones_own_leads_to_a_report(tmp_path):
    said = typed((ROOT / "docs" / "tutorials" / "own-csv.md").read_text(), tmp_path)
    assert "manifest.csv: 1800 pictures, no problems" in said
    for proposed in (
        "--asks malignancy",
        "--clients column:clinic",
        "--subgroups fitzpatrick",
        "--unit lesion",
    ):
        assert proposed in said
    assert not re.search(r"^! (dark|light).*nothing will be told", said, flags=re.MULTILINE)
    assert re.search(r"^dark .*\d", said, flags=re.MULTILINE)
