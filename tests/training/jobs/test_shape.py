"""The early refusal of a job: what it tells, and that it refuses nothing that the full validation takes."""

import copy
import datetime
import subprocess
import sys
from pathlib import Path

import pytest
from pydantic import ValidationError

from training.jobs.job import Job, read_job
from training.jobs.job_file import apply_change, read_plain, set_value
from training.jobs.recipes import read_recipes
from training.jobs.shape import SCHEMA_FILE, wrong_shape
from training.jobs.shape_schema import schema_text

ROOT = Path(__file__).parents[3]
RECIPES = {recipe.name: recipe.path for recipe in read_recipes()}
DEMO = read_plain(RECIPES["demo"])

WRONG = {  # a change of the demo job, and the one line that is told of it
    "sead=1": "sead: unknown key `sead`; did you mean `seed`? valid: version, name, seed, about,",
    "engine.wokers=2": "engine.wokers: unknown key `wokers`; did you mean `workers`? valid: name, workers,",
    "stages.0.objective.epochz=3": "stages.0.objective.epochz: unknown key `epochz`; did you mean `epochs`?",
    "stages.1.strategy.epoch=3": "stages.1.strategy.epoch: unknown key `epoch`; did you mean `epochs`?",
    "data.clients.bye=iid": "data.clients.bye: unknown key `bye`; did you mean `by`?",
    "stages.0.aggregator.name=fedavq": "stages.0.aggregator.name: unknown aggregator `fedavq`; did you",
    "stages.0.aggregator={}": "stages.0.aggregator.name: name the aggregator; valid: afl, fedauto, fedavg,",
    "stages.0.aggregator=fedavg": "stages.0.aggregator: write a block of keys and values with `name`; ",
    "stages.2.stage=exprot": "stages.2.stage: unknown stage `exprot`; did you mean `export`?",
    "stages.0.objective.name=3": "stages.0.objective.name: unknown objective 3; valid: beit, byol,",
    "engine.device=gpu": "engine.device: unknown value `gpu`; ",
    "engine.device=no": "engine.device: unknown value False; ",
    "stages.0.rounds=0": "stages.0.rounds: write a whole number of at least 1; found 0",
    "stages.0.rounds=2.5": "stages.0.rounds: write a whole number of at least 1; found 2.5",
    "stages.0.rounds=many": "stages.0.rounds: write a whole number of at least 1; found 'many'",
    "stages.0.rounds=": "stages.0.rounds: write a whole number of at least 1; found nothing",
    "stages.0.rounds=[8]": "stages.0.rounds: write a whole number of at least 1; found a list of 1",
    "stages.0.rounds={n: 8}": "stages.0.rounds: write a whole number of at least 1; found the block n",
    "data.image_size=99999": "data.image_size: write a whole number of at least 8 and at most 2048; found",
    "data.split.train=1.5": "data.split.train: write a number of more than 0 and less than 1; found 1.5",
    "data.split.train=most": "data.split.train: write a number of more than 0 and less than 1; found 'most'",
    "engine.min_clients=0": "engine.min_clients: write null, or a whole number of at least 1; found 0",
    "engine.network.canary=maybe": "engine.network.canary: write true or false; found 'maybe'",
    "engine.network.canary=2": "engine.network.canary: write true or false; found 2",
    "name=3": "name: write a text of the form ^[A-Za-z0-9][A-Za-z0-9._-]*$; found 3; in quotes it is a text",
    "name=a b": "name: write a text of the form ^[A-Za-z0-9][A-Za-z0-9._-]*$; found 'a b'",
    "model.weights=no": "model.weights: write a text; found False; YAML reads yes, no,",
    "data.label_map=malign": "data.label_map: write malignancy, or a block of keys and values; found",
    "data.manifest={}": "data.manifest: write null, or a text, or a list; found the block without a key",
    "stages={}": "stages: write a list of at least 1 value; found the block without a key",
    "stages=[]": "stages: write a list of at least 1 value; found a list of 0",
    "stages.0.objective.optimizer.betas=[0.9]": "stages.0.objective.optimizer.betas: write a list of 2",
    "stages.0.objective.sampling=unifrom": "stages.0.objective.sampling: unknown value `unifrom`; did",
    "data.cases.facts=[{kind: nmber, name: a}]": "data.cases.facts.0.kind: unknown kind `nmber`; did you",
    "data.sources=[{name: a, cuont: 2}]": "data.sources.0.cuont: unknown key `cuont`; did you mean `count`?",
    "data.server={train: 0.5}": "data.server.share: is missing, and has no default",
}

SPELT_OTHERWISE = (
    "seed='5'",
    "seed=5.0",
    "seed=true",
    "seed=' 5 '",
    "seed='1_000'",
    "seed='5.0'",
    "stages.0.rounds='8'",
    "stages.0.objective.optimizer.lr='2e-3'",
    "stages.0.objective.optimizer.lr=2e-3",  # a text to YAML, which wants 2.0e-3
    "stages.0.objective.optimizer.lr='.5'",
    "stages.0.objective.mu=true",
    "engine.network.silence=.inf",
    "engine.network.canary='off'",
    "engine.network.canary=0",
    "engine.network.canary='F'",
    "engine.network.canary=1.0",
    "engine.min_clients=null",
    "tracking.mlflow=true",
    "tracking.mlflow=null",
    "tracking.mlflow={uri: 'sqlite:///x.db'}",
    "version=1",
    "data.options={day: 2024-01-01, deep: {3: [.nan, !!set {a}], on: off}}",
    "data.label_map={a: null, b: malignant}",
    "data.where={a: [b, c], d: e}",
    "model.options={channels: [16, 32], anything: {at: all}}",
)

ODD = (
    *(None, True, False, 0, 1, -1, 5, 5.0, 0.5, 10**30, float("nan"), float("inf")),
    *("", "x", "5", " 5 ", "5.0", "1e-3", "1_000", "nan", "yes", "OFF", "t", ".5", "+1", "-1", "\ud800"),
    *(datetime.date(2024, 1, 1), b"x", (1, 2), [], ["a"], [1], [0.5, "1"], {}, {"a": 1}, {1: "a"}),
)


def changed(change):
    job = copy.deepcopy(DEMO)
    if "data.cases" in change:
        job["data"]["cases"] = {}
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
    assert SCHEMA_FILE.read_text(encoding="utf-8") == schema_text(), "make it anew: make schema"


@pytest.mark.parametrize(("change", "told"), WRONG.items())
def test_a_wrong_job_is_told_by_place_value_and_what_is_allowed(change, told):
    (line,) = wrong_shape(changed(change))
    assert line.startswith(told)
    assert not is_taken(changed(change))


def test_all_that_is_wrong_is_told_at_once_in_the_order_of_the_job():
    job = copy.deepcopy(DEMO)
    for change in ("seed=x", "stages.0.rounds=0", "data.image_sise=3", "stages.0.aggregator.name=fedavq"):
        apply_change(job, change)
    del job["name"]
    found = [line.partition(": ")[0] for line in wrong_shape(job)]
    assert found == ["name", "seed", "data.image_sise", "stages.0.rounds", "stages.0.aggregator.name"]


@pytest.mark.parametrize("change", SPELT_OTHERWISE)
def test_what_is_only_spelt_otherwise_is_not_refused(change):
    assert is_taken(changed(change))
    assert wrong_shape(changed(change)) == []


@pytest.mark.parametrize("name", sorted(RECIPES))
def test_no_built_in_job_is_refused(name):
    assert wrong_shape(read_plain(RECIPES[name])) == []


def test_no_job_with_all_defaults_filled_in_is_refused():
    recipes = read_recipes()
    assert recipes
    for recipe in recipes:
        assert wrong_shape(read_job(recipe.path).resolved()) == []


@pytest.mark.parametrize("name", ["demo", "fedperl", "fedmae"])
def test_whatever_stands_anywhere_is_refused_early_only_if_the_full_validation_refuses_it(name):
    job = Job.model_validate(read_plain(RECIPES[name])).resolved()
    refused = 0
    for number, place in enumerate(places(job)):
        for odd in ODD[number % 3 :: 3]:  # a third each: a wider search takes minutes
            other = copy.deepcopy(job)
            at = other
            for step in place[:-1]:
                at = at[step]
            at[place[-1]] = odd
            if told := wrong_shape(other):
                refused += 1
                assert not is_taken(other), (place, odd, told)
    assert refused > 300


def test_a_part_of_another_distribution_is_left_to_the_full_validation(install):
    install("dermfed-toy", {}, {"dermfed.aggregators": {"fedtoy": "toy:FedToy"}})
    job = copy.deepcopy(DEMO)
    set_value(job, "stages.0.aggregator", {"name": "fedtoy", "anything": "at all"}, "")
    assert wrong_shape(job) == []
    set_value(job, "stages.0.aggregator.name", "fedtoj", "")
    assert wrong_shape(job)[0].startswith(
        "stages.0.aggregator.name: unknown aggregator `fedtoj`; did you mean `fedtoy`"
    )


def test_what_is_nested_too_deeply_to_be_judged_is_left_to_the_full_validation():
    deep = []
    for _ in range(400):
        deep = [deep]
    assert wrong_shape({**DEMO, "seed": "x", "model": {"name": "resnet18", "options": {"a": deep}}}) in (
        [],
        ["seed: write a whole number; found 'x'"],
    )


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "name: x\nextends: demo\nchanges: {stages.federate.rounds: 0}\n",
            "stages.0.rounds: write a whole number",
        ),
        (
            "name: x\nextends: demo\nchanges:\n  seed: 1\n  seed: 2\n",
            "lines 4 and 5: the key 'seed' is there twice",
        ),
        ("name: x\ndata:\n\tseed: 1\n", "line 3, column 1: a tab; indent with spaces"),
        ("name: x\nseed: 1: 2\n", "line 2, column 8: mapping values are not allowed here"),
        ("name: x\nextends: demmo\n", "did you mean `demo`"),
    ],
)
def test_a_wrong_job_is_refused_before_torch_is_imported(tmp_path, text, told):
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
    assert told in " ".join(ended.stderr.split())
