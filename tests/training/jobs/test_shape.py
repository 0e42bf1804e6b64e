"""The early refusal of misspelt keys refuses nothing that the full validation takes."""

import copy
import json
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from tests.thorough import mostly_long
from training.jobs.job import Job, read_job
from training.jobs.job_file import apply_change, read_plain, set_value
from training.jobs.recipes import read_recipes
from training.jobs.shape import SCHEMA_FILE, unknown_keys

ROOT = Path(__file__).parents[3]
RECIPES = {recipe.name: recipe.path for recipe in read_recipes()}
DEMO = read_plain(RECIPES["demo"])
SCHEMA = json.loads(SCHEMA_FILE.read_text(encoding="utf-8"))

WRONG = {  # a change of the demo job, and the one line that is told of it
    "sead=1": "sead: unknown key `sead`; did you mean `seed`? valid: version, name, seed, about,",
    "engine.wokers=2": "engine.wokers: unknown key `wokers`; did you mean `workers`? valid: name, workers,",
    "stages.0.objective.epochz=3": "stages.0.objective.epochz: unknown key `epochz`; did you mean `epochs`?",
    "stages.1.strategy.epoch=3": "stages.1.strategy.epoch: unknown key `epoch`; did you mean `epochs`?",
    "data.clients.bye=iid": "data.clients.bye: unknown key `bye`; did you mean `by`?",
    "data.sources=[{name: a, cuont: 2}]": "data.sources.0.cuont: unknown key `cuont`; did you mean `count`?",
    "data.subgroups={scle: monk}": "data.subgroups.scle: unknown key `scle`; did you mean `scale`?",
}

LEFT = (  # keys that a user chooses, and values, are for the full validation
    "stages.0.rounds='8'",
    "tracking.mlflow=true",
    "data.options={day: 2024-01-01, deep: {3: [.nan, !!set {a}], 'on': false}}",
    "data.label_map={a: null, b: malignant}",
    "data.where={a: [b, c], d: e}",
    "model.options={channels: [16, 32], anything: {at: all}}",
)

ODD = (
    None,
    True,
    -1,
    0.5,
    "x",
    b"x",
    (1, 2),
    [],
    ["a"],
    [{"a": 1}],
    {},
    {"a": 1},
    {1: "a"},
    {"name": "none"},
)


def told(job):
    return list(unknown_keys(job, SCHEMA, SCHEMA["$defs"]))


def changed(change):
    job = copy.deepcopy(DEMO)
    apply_change(job, change)
    return job


def places(value, place=()):
    """Every place below the top."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, each in inner:
        yield (*place, key)
        yield from places(each, (*place, key))


def is_taken(job):
    try:
        Job.model_validate(job)
    except ValidationError:
        return False
    return True


def test_the_schema_is_the_one_that_the_classes_give():
    assert json.loads(json.dumps(Job.model_json_schema())) == SCHEMA, "write it again: make schema"


@pytest.mark.parametrize(("change", "line"), WRONG.items())
def test_an_unknown_key_is_told_by_its_place_and_the_nearest_valid_one(change, line):
    (found,) = told(changed(change))
    assert found.startswith(line)
    assert not is_taken(changed(change))


@pytest.mark.parametrize("change", LEFT)
def test_keys_that_a_user_chooses_are_not_refused(change):
    assert is_taken(changed(change))
    assert told(changed(change)) == []


def test_no_built_in_job_is_refused_as_it_is_or_with_its_defaults(monkeypatch):
    monkeypatch.setenv("DERMFED_DATA", "/nowhere")
    for path in RECIPES.values():
        assert told(read_plain(path)) == []
        assert told(read_job(path).resolved()) == []


@pytest.mark.parametrize("name", ["fedperl", "fedmae"])
def test_whatever_stands_anywhere_is_refused_early_only_if_the_full_validation_refuses_it(name):
    job = Job.model_validate(read_plain(RECIPES[name])).resolved()
    refused = 0
    for number, place in enumerate(places(job)):
        for odd in ODD[number % 4 :: 4]:  # a fourth each: a wider search takes minutes
            other = copy.deepcopy(job)
            at = other
            for step in place[:-1]:
                at = at[step]
            at[place[-1]] = odd
            if lines := told(other):
                refused += 1
                assert not is_taken(other), (place, odd, lines)
    assert refused > 10


def test_a_part_of_another_distribution_is_left_to_the_full_validation():
    job = copy.deepcopy(DEMO)
    set_value(job, "stages.0.aggregator", {"name": "fedtoy", "anything": "at all"}, "")
    assert told(job) == []


EARLY = [
    (
        "name: x\nextends: demo\nchanges: {stages.federate.runds: 0}\n",
        "stages.0.runds: unknown key `runds`; did you mean `rounds`?",
    ),
    (
        "name: x\nextends: demo\nchanges:\n  seed: 1\n  seed: 2\n",
        "lines 4 and 5: the key 'seed' is there twice",
    ),
    ("name: x\ndata:\n\tseed: 1\n", "line 3, column 1: a tab; indent with spaces"),
    ("name: x\nseed: 1: 2\n", "line 2, column 8: mapping values are not allowed here"),
    ("name: x\nextends: demmo\n", "did you mean `demo`"),
]


@pytest.mark.parametrize(("text", "line"), mostly_long(EARLY, EARLY[0]))
def test_a_wrong_job_is_refused_before_torch_is_imported(tmp_path, text, line):
    (tmp_path / "job.yaml").write_text(text)
    code = (
        "import sys\nfrom training.run import main\nsys.argv = ['dermfed-train', sys.argv[1]]\n"
        "try:\n    main()\nexcept SystemExit as ended:\n"
        "    print(ended.code, [name for name in ('torch', 'matplotlib') if name in sys.modules])\n"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "job.yaml")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout == "2 []\n"
    assert line in " ".join(ended.stderr.split())
