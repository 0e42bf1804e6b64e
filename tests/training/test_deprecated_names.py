"""Parts of other distributions that import the names of before run for one release more, with a warning."""

import importlib
import json
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import yaml

from registry import bundle
from registry.bundle.old_names import GOES_IN
from training import deprecated_names
from training.deprecated_names import DATA, FEDERATION, MESSAGES, MOVED, RENAMED

ROOT = Path(deprecated_names.__file__).parents[1]
PART = Path(__file__).with_name("part_of_before.py")  # as the guide of 0.1.0's first drafts had it
POINTS = {
    "dermfed.aggregators": {"median-voice": "median_voice:MedianVoice"},
    "dermfed.adapters": {"squares": "median_voice:Squares"},
}
JOB = {
    "name": "outside",
    "data": {
        "adapter": "squares",
        "options": {"count": 60},
        "image_size": 16,
        "clients": {"by": "iid", "count": 3},
    },
    "model": {"name": "resnet18", "options": {"channels": [4, 8, 16, 32]}},
    "privacy": {"min_count": 1},
    "evaluation": {"replicates": 5},
    "stages": [
        {
            "stage": "federate",
            "rounds": 2,
            "objective": {"name": "supervised", "batch_size": 16},
            "aggregator": {"name": "median-voice", "echo": 0.25},
        }
    ],
}


@pytest.fixture
def old_name():
    """Imports a module by its old name as for the first time, and forgets it."""
    known = set(sys.modules)

    def load(name):
        return importlib.import_module(name)

    yield load
    for name in set(sys.modules) - known:
        if type(sys.modules[name]).__name__ == "_OldModule":
            del sys.modules[name]


@pytest.mark.usefixtures("old_name", "without_report")
def test_a_part_of_before_runs_and_each_line_that_imports_an_old_name_warns(install, train_command, tmp_path):
    install("median-voice", {"median_voice": PART.read_text()}, POINTS)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(JOB))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        ended = train_command("job.yaml", "--out", "run")
    assert ended.code == 0, ended.err
    rounds = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [list(line["models"]["global"]["weights"].values()) for line in rounds] == [[0.75], [0.75]]
    lines = PART.read_text().splitlines()
    ours = [
        one for one in told if one.category is DeprecationWarning and f"goes in {GOES_IN}" in str(one.message)
    ]
    assert {Path(one.filename).name for one in ours} == {"median_voice.py"}
    assert [(lines[one.lineno - 1], str(one.message).split(";")[0]) for one in ours] == [
        (
            "from clients.data.manifest import Manifest, Row",
            f"clients.data.manifest.{name} is clients.data.manifests.manifest.{name} now",
        )
        for name in ("Manifest", "Row")
    ] + [
        (
            "from training.aggregators import Aggregator",
            "training.aggregators.Aggregator is training.algorithms.aggregators.Aggregator now",
        )
    ] + [
        (
            "from training.aggregators.base import Mixture, Report, ServerState",
            f"training.aggregators.base.{name} is training.algorithms.aggregators.base.{name} now",
        )
        for name in ("Mixture", "Report", "ServerState")
    ]  # fmt: skip


@pytest.mark.parametrize(("old", "new"), [*MOVED.items(), *bundle.MOVED.items()])
def test_what_moved_is_the_same_under_both_names(old_name, old, new):
    module, moved = old_name(old), importlib.import_module(new)
    public = [name for name, value in vars(moved).items() if getattr(value, "__module__", None) == new]
    back = {now: before for before, now in RENAMED.get(old, {}).items()}
    assert public or new.endswith(("sync", "exchanges", "similarity", "aggregators", "objectives", "stages"))
    for name in public:
        with pytest.warns(DeprecationWarning, match=f"the old name goes in {GOES_IN}"):
            assert getattr(module, back.get(name, name)) is getattr(moved, name)


@pytest.mark.parametrize(
    ("old", "name", "new", "now"),
    [(old, name, None, now) for old, names in RENAMED.items() for name, now in names.items()]
    + [("training.data", name, module, name) for name, module in DATA.items()]
    + [("training.messages", name, module, name) for name, module in MESSAGES.items()]
    + [("training.federation", name, module, name) for name, module in FEDERATION.items()],
)
def test_what_has_another_name_or_room_now_is_handed_on(old_name, old, name, new, now):
    with pytest.warns(DeprecationWarning, match=rf"^{old}\.{name} is .*\.{now} now; the old name goes in"):
        found = getattr(old_name(old), name)
    if new is not None:
        assert found is getattr(importlib.import_module(new), now)


@pytest.mark.parametrize("old", [*MOVED, *bundle.MOVED])
def test_no_old_name_hides_a_module_of_now(old):
    place = ROOT / Path(*old.split("."))
    assert not place.with_suffix(".py").exists()
    assert not (place / "__init__.py").exists()


def test_a_module_within_a_package_that_moved_is_found(old_name):
    from training.algorithms.objectives.supervised import Supervised

    with pytest.warns(
        DeprecationWarning, match=r"is training\.algorithms\.objectives\.supervised\.Supervised"
    ):
        assert old_name("training.objectives.supervised").Supervised is Supervised


@pytest.mark.parametrize(
    "name", ["training.nothing", "training.objectives.nothing", "training.parts.nothing"]
)
def test_what_never_was_is_still_not_there(old_name, name):
    with pytest.raises(ModuleNotFoundError):
        old_name(name)


def test_a_name_that_never_was_is_still_not_there(old_name):
    for module in ("training.objectives", "training.messages", "training.data"):
        with pytest.raises(AttributeError):
            _ = old_name(module).Nothing


def test_they_cost_nothing_until_they_are_used():
    program = (
        "import sys, training, training.deprecated_names\n"
        "import training.objectives\n"
        "assert not hasattr(sys.modules['training.objectives'], '__file__')\n"
        "print([name for name in ('torch', 'numpy', 'training.algorithms') if name in sys.modules])"
    )
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert ended.stdout == "[]\n"
