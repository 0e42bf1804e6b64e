"""Stored runs continued by this version, and held against what their own version reached."""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median

from safetensors.torch import load_file
from torch import Tensor

from tests.fixtures import PREVIOUS, ROOT
from tests.fixtures.making import arithmetic
from tests.fixtures.making.checkout import pinned
from tests.fixtures.making.outcome import outcomes, weights_digest
from tests.fixtures.making.packed import unpack
from training.federation.blocks import read_blocks

COUNTS = "test/"  # before the names of the counts in a stage's outcome
AS_COUNTED_BEFORE = Path(__file__).with_name("as_counted_before")  # see the file in it

# How far arithmetic of another kind may lead in two rounds and what comes after them, of a tensor's norm:
# half of a stage's tensors, and any of them. Biases that began at zero have been but a few steps, some of
# them of doubtful sign.
NEAR, NEAR_ENOUGH = 0.005, 0.25
# One process imports everything, and forks a process for each run.
FORKING = """
import json, os, sys

from training import run

run.render_report = lambda data: ""  # not what is tested here
endings = []
for job, out in json.loads(sys.argv[1]):
    child = os.fork()
    if not child:
        sys.argv = ["dermfed-train", job, "--out", out, "--resume"]
        code = 3
        try:
            run.main()
            code = 0
        except SystemExit as ended:
            code = ended.code or 0
        finally:
            os._exit(code)
    endings.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
print(json.dumps(endings))
"""


def resume(runs: Sequence[tuple[Path, Path]], folder: Path) -> None:
    """Continue runs, each given by its job file and its folder, to their ends."""
    ended = subprocess.run(
        [sys.executable, "-c", FORKING, json.dumps([(str(job), str(out)) for job, out in runs])],
        env=pinned(PYTHONPATH=f"{AS_COUNTED_BEFORE}{os.pathsep}{ROOT}", DERMFED_CACHE=str(folder / "cache")),
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout.splitlines()[-1]) == [0] * len(runs), ended.stderr


def computed() -> dict[str, str]:
    """What this processor makes of a small computation, with its arithmetic pinned."""
    command = [sys.executable, arithmetic.__file__]
    found: dict[str, str] = json.loads(subprocess.check_output(command, env=pinned()))
    return found


@cache
def computed_once() -> dict[str, str]:
    """`computed`, for whoever changes nothing of the environment."""
    return computed()


def same_arithmetic() -> bool:
    """Whether this processor's results are those of the one on which the fixtures were made."""
    stored: dict[str, str] = json.loads((PREVIOUS / "run_folders" / "arithmetic.json").read_text())
    return stored["digest"] == computed_once()["digest"]


def assert_reached(stored: Path, found: Path, scratch: Path) -> str:
    """Hold a run's tensors against `expected.json` and `expected.tar.xz` in `stored`; returns how."""
    expected = unpack(stored / "expected.tar.xz", scratch / "expected")
    assert weights_digest(expected) == json.loads((stored / "expected.json").read_text())["weights"]
    if same_arithmetic():
        assert weights_digest(found, without=COUNTS) == weights_digest(expected, without=COUNTS)
    assert_near(expected, found)
    return "byte for byte" if same_arithmetic() else f"to {NEAR} of a norm"


def assert_near(expected: Path, found: Path) -> None:
    """The same tensors after each stage, as far as another arithmetic allows.

    Counts of answers are of another form by now; of each subgroup, there are as many pictures as there were.
    """
    paths = [path.relative_to(expected) for path in outcomes(expected)]
    assert paths == [path.relative_to(found) for path in outcomes(found)]
    for path in paths:
        before, now = load_file(expected / path), load_file(found / path)
        assert counted(before) == counted(now)
        before, now = without_counts(before), without_counts(now)
        assert before.keys() == now.keys()
        assert [each.shape for each in before.values()] == [now[name].shape for name in before]
        assert [each.dtype for each in before.values()] == [now[name].dtype for name in before]
        weights = {name: tensor for name, tensor in before.items() if tensor.is_floating_point()}
        off = {name: distance(tensor, now[name]) for name, tensor in weights.items()}
        assert median(off.values()) <= NEAR, path
        assert max(off.values()) <= NEAR_ENOUGH, f"{path}, {max(off, key=off.__getitem__)}"


def counted(tensors: Mapping[str, Tensor]) -> dict[str, int]:
    """Test pictures by subgroup, by this version's reading of blocks of either version."""
    blocks = read_blocks({name.removeprefix(COUNTS): tensors[name] for name in tensors if is_count(name)})
    return {name: int(block.point.n) for name, block in blocks.items()}


def without_counts(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """What is no count of answers."""
    return {name: tensor for name, tensor in tensors.items() if not is_count(name)}


def is_count(name: str) -> bool:
    """Whether a tensor of a stage's outcome is a count."""
    return name.startswith(COUNTS)


def distance(before: Tensor, now: Tensor) -> float:
    """How far a tensor is from what it was, of its norm."""
    norm = float(before.double().norm())
    return float((before.double() - now.double()).norm()) / norm if norm else float(now.double().norm())


def assert_went_on(stored: Path, before: Path, found: Path) -> None:
    """The rounds that were done when a run was killed stand as they were, with the seconds that they took."""
    done = json.loads((stored / "expected.json").read_text())["rounds_done"]
    lines = (before / "metrics.jsonl").read_text().splitlines()
    after = (found / "metrics.jsonl").read_text().splitlines()
    assert len(lines) >= done
    assert after[:done] == lines[:done]
    assert len(after) > len(lines)
