"""The shortest job of docs/jobs.md, saved as it stands there beside a manifest, passes `--check`."""

import json
import re
from pathlib import Path

from clients.data.synthetic import write_synthetic

PAGE = Path(__file__).parents[2] / "docs" / "jobs.md"


def test_the_shortest_job_of_the_page_passes_check(tmp_path, train_command):
    (section,) = re.findall(r"^## The shortest that makes sense\n(.*?)^## ", PAGE.read_text(), re.M | re.S)
    (job,) = re.findall(r"^```yaml\n(.*?)^```", section, re.M | re.S)
    folder = tmp_path / "drawn"
    write_synthetic(folder, pictures=120, size=32, seed=1)
    (folder / "job.yaml").write_text(job)
    checked = train_command("--check", str(folder / "job.yaml"), "--json")
    assert checked.code == 0, checked.err
    assert {row["client"] for row in json.loads(checked.out)} == {"client-0", "client-1"}
    assert len(job.splitlines()) <= 14, "it is to be short"
