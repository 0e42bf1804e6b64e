"""What a job may say: every key that is kept, no other, and a hint for one that is misspelt."""

import json
from pathlib import Path

import pytest
import yaml

from .job_keys import LIST, differences, keys_of, listed

LISTED = yaml.safe_load(LIST.read_text())
FEDERATION = {
    "name": "skin",
    "coordinator": {"host": "localhost", "port": 8002},
    "hospitals": [{"name": "north"}, {"name": "south"}],
}
RECIPE = {"name", "path", "system", "paper"}  # of each, among others


@pytest.fixture(scope="session")
def schema(command):
    ended = command("train", "--schema")
    assert ended.code == 0
    return json.loads(ended.out)


@pytest.fixture(scope="session")
def kit(command, tmp_path_factory):
    """A hospital's kit; each test writes a policy of its own into it."""
    folder = tmp_path_factory.mktemp("federation")
    (folder / "federation.yaml").write_text(yaml.safe_dump(FEDERATION))
    ended = command("node", "provision", "federation.yaml", "--out", "kits", folder=folder)
    assert ended.code == 0, ended.err
    return folder / "kits" / "north"


def refused(command, folder, job, *changes):
    """What is said of a job that does not even get as far as its data."""
    (folder / "job.yaml").write_text(yaml.safe_dump(job, sort_keys=False))
    ended = command("train", "--check", "job.yaml", *changes, folder=folder)
    assert ended.code == 2
    return ended.err


def test_a_job_has_the_keys_that_are_listed_and_no_others(schema):
    assert differences(keys_of(schema)) == []


def test_a_key_that_is_gone_and_one_that_is_new_are_noticed(schema):
    found = keys_of(schema) - {"data.clients.by"} | {"data.clients.where"}
    assert differences(found) == [
        "data.clients.by is kept, and no key of a job",
        "data.clients.where is a key of a job, and not in the list",
    ]


def test_the_schema_lets_no_other_key_in(schema):
    blocks = [schema, *schema["$defs"].values()]
    assert all(block["additionalProperties"] is False for block in blocks if "properties" in block)


def test_no_key_is_both_kept_and_removed():
    assert not listed("kept") & listed("removed")


@pytest.mark.parametrize(
    ("misspelt", "meant"),
    [
        ("seeds", "seed"),
        ("data.image_sizes", "image_size"),
        ("data.clients.colum", "column"),
        ("privacy.min_counts", "min_count"),
        ("stages.0.round", "rounds"),
        ("stages.0.objective.batchsize", "batch_size"),
        ("stages.0.objective.optimizer.weight-decay", "weight_decay"),
        ("stages.0.aggregator.loss_ration", "loss_ratio"),
    ],
)
def test_a_misspelt_key_is_refused_with_the_nearest_name(command, job, tmp_path, misspelt, meant):
    job["stages"] = [{**job["stages"][0], "aggregator": {"name": "fedauto"}}]
    *blocks, key = misspelt.split(".")
    block = job
    for name in blocks:
        block = block[int(name)] if name.isdigit() else block.setdefault(name, {})
    block[key] = 1
    said = refused(command, tmp_path, job)
    assert misspelt in said
    assert f"did you mean `{meant}`" in said


def test_a_misspelt_key_of_the_command_line_is_refused_with_the_nearest_name(command, job, tmp_path):
    said = refused(command, tmp_path, job, "--set", "engine.worker=2")
    assert "did you mean `workers`" in said


def test_a_name_that_is_no_name_of_any_aggregator_is_refused(command, job, tmp_path):
    said = refused(command, tmp_path, job, "--set", "stages.federate.aggregator.name=fedavgg")
    assert "`fedavg`" in said


def test_a_check_of_a_job_counts_who_holds_what(command, job, tmp_path):
    job["stages"] = job["stages"][:1]
    job["data"]["options"]["pictures"] = 60
    (tmp_path / "job.yaml").write_text(yaml.safe_dump(job))
    ended = command("train", "--check", "job.yaml", "--json", folder=tmp_path)
    assert ended.code == 0, ended.err
    cells = json.loads(ended.out)
    assert sum(cell["n"] for cell in cells) == 60
    assert {cell["client"] for cell in cells} == {"light", "dark"}


def test_recipes_are_listed_with_their_papers(command):
    ended = command("train", "--recipes", "--json")
    recipes = json.loads(ended.out)
    assert ended.code == 0
    assert all(recipe.keys() >= RECIPE for recipe in recipes)
    assert any("2023" in (recipe["paper"] or "") for recipe in recipes)
    assert {"demo", "fedperl", "fedclf", "fedmae", "fedperl@t3"} <= {each["name"] for each in recipes}
    assert all(Path(recipe["path"]).is_file() for recipe in recipes)


@pytest.mark.parametrize(
    ("adapter", "option"), [(name, key) for name, keys in LISTED["adapters"].items() for key in keys.split()]
)
def test_an_adapter_has_the_option(command, home, adapter, option):
    """A word that is all but the option's name is taken for it, and for no other."""
    given = ("--option", f"{option}x=1", "--out", "manifest.csv")
    ended = command("data", "import", adapter, ".", *given, folder=home)
    assert ended.code == 2
    assert f"did you mean `{option}`" in ended.err


def said_of_policy(command, kit, policy):
    """What `dermfed-node check` says of the file; its other checks need a coordinator."""
    (kit / "policy.yaml").write_text(yaml.safe_dump(policy))
    ended = command("node", "check", "--kit", kit, "--json")
    [check] = [each for each in json.loads(ended.out) if each["about"] == "policy"]
    return check


def test_a_hospital_may_say_all_that_is_listed(command, kit):
    assert said_of_policy(command, kit, LISTED["policy"])["fit"]


@pytest.mark.parametrize(
    ("block", "misspelt", "meant"),
    [
        ("privacy", "mincount", "min_count"),
        ("jobs", "digest", "digests"),
        ("limits", "disc_gb", "disk_gb"),
        ("", "hour", "hours"),
    ],
)
def test_a_policy_with_a_misspelt_key_allows_nothing(command, kit, block, misspelt, meant):
    policy = json.loads(json.dumps(LISTED["policy"]))
    (policy[block] if block else policy)[misspelt] = 1
    check = said_of_policy(command, kit, policy)
    assert not check["fit"]
    assert f"did you mean `{meant}`" in check["text"]
