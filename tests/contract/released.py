"""What a version has written, kept so that later ones read it: `python -m tests.contract.released FOLDER`.

A registry with its store, a release in a file, the answers of its bundles, and a job. It is written once, as
a version is released, and never again.
"""

import json
import socket
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

from registry.bundle.diagnose import diagnose
from registry.bundle.folder import Bundle
from registry.registry import Registry
from tests.case_bundles import case_bundle
from tests.serving.conftest import LIGHT, draw_bundle, encode, paint, release
from training.jobs.job import read_job
from training.jobs.job_file import read_plain
from training.jobs.recipes import recipe_path

REGISTRY, RELEASE, ANSWERS, JOB = "registry.tar.gz", "release.dermfed", "answers.json", "job.json"
PICTURE = "picture.png"
MODEL, CASES = "skin-lesion", "lesions"


def answers(find: Callable[[str, int], Bundle], picture: bytes) -> dict[str, Any]:
    """What each kind of bundle answers to a picture."""
    facts = {"age": "70", "sex": "female"}
    return {
        "global": diagnose(find(MODEL, 1), picture).to_json(),
        "light": diagnose(find(MODEL, 2), picture, skin_tone="1", skin_tone_scale="fitzpatrick").to_json(),
        "case": diagnose(find(CASES, 1), [(picture, "close-up")], facts=facts).to_json(),
    }


@contextmanager
def opened(folder: Path) -> Iterator[Registry]:
    """The registry in a folder."""
    with Registry.open(f"sqlite:///{folder / 'registry.db'}", str(folder / "store"), actor="keeper") as found:
        yield found


def write(folder: Path) -> None:
    """Write what this version makes."""
    folder.mkdir(parents=True)
    host = mock.patch.object(socket, "gethostname", return_value="hospital")
    with tempfile.TemporaryDirectory() as name:
        with host, opened(Path(name)) as registry:
            release(registry, draw_bundle(), draw_bundle(LIGHT))
            registry.add([case_bundle(model=CASES)])
            registry.export_release(MODEL, "production", folder / RELEASE)
            picture = encode(paint((213, 115, 83)), "PNG")
            said = answers(lambda model, number: registry.bundle(registry.version(model, number)), picture)
        with tarfile.open(folder / REGISTRY, "w:gz") as packed:
            packed.add(
                name, ".", filter=lambda one: one.replace(uid=0, gid=0, uname="", gname="", deep=False)
            )
    (folder / PICTURE).write_bytes(picture)
    (folder / ANSWERS).write_text(json.dumps(said, indent=1) + "\n")
    demo = recipe_path("demo")
    job = {"job": read_plain(demo), "digest": read_job(demo).digest}
    (folder / JOB).write_text(json.dumps(job, indent=1) + "\n")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
