"""A coordinator lays the checkpoint before a round back and takes the run up without one hospital.

No line of its code is changed: training is repeatable, and the round's two sums differ by that hospital's
weights. `tests/attacks/test_same_round_twice.py` tries it without processes, and a coordinator that lies.
"""

import json
import shutil

import pytest
from safetensors import safe_open
from safetensors.torch import load_file

from tests.clients.node.federated import HOSPITALS, MASKS, data_of, running

pytestmark = pytest.mark.long
VICTIM, ROUND = "east", 2
STAYED = tuple(name for name in HOSPITALS if name != VICTIM)


@pytest.fixture(scope="module")
def net(tmp_path_factory):
    with running(tmp_path_factory.mktemp("federated")) as made:
        yield made


def job(tiny, name):
    return {
        **tiny,
        "name": name,
        "data": data_of(),
        "stages": [{**tiny["stages"][0], "rounds": ROUND, "evaluate_on": None}],
        "privacy": MASKS,
    }


def lay_back(net, described, wait_until):
    """The run until its end, and then as it was after the first round; the weights of its end."""
    name = described["name"]
    path, out = net.folder / f"{name}.json", net.folder / "there" / name
    path.write_text(json.dumps(described))
    (net.deeds / f"west fit {ROUND} crash").touch()  # round 2 takes until it is back: time for a copy
    net.send(path, out)
    wait_until(lambda: len(net.metrics_log(name)) == ROUND - 1, "the first round")
    before = net.folder / f"{name} before"
    shutil.copytree(net.results(name), before / "coordinator")
    shutil.copytree(out, before / "admin")
    assert net.nodes["admin"].wait(600) == 0, net.said
    whole = outcome(net, name)
    for kept, place in ((before / "coordinator", net.results(name)), (before / "admin", out)):
        shutil.rmtree(place)
        shutil.copytree(kept, place)
    return whole


def outcome(net, name):
    """The one model's weights."""
    model = load_file(net.results(name) / "checkpoints" / "0-federate" / "outcome.safetensors")
    return {key.removeprefix("model-0/"): value for key, value in model.items()}


def test_hospitals_give_no_second_sum_of_the_round(net, tiny, wait_until):
    described = job(tiny, "again")
    lay_back(net, described, wait_until)
    ended, _ = net.there(described, "--resume", "--without", VICTIM)
    assert ended.returncode != 0
    assert f"the sum of `fit` over {', '.join(sorted(HOSPITALS))} was unmasked in this run" in ended.stderr
    assert f"Bring {VICTIM} back and continue with --resume" in ended.stderr
    assert len(net.metrics_log("again")) == ROUND - 1


def test_the_control_of_hospitals_that_forget_their_sums_it_has_the_weights(net, tiny, wait_until):
    described = job(tiny, "forgotten")
    (net.deeds / "forgetful").touch()
    (net.deeds / "trained").mkdir()
    whole = lay_back(net, described, wait_until)
    ended, _ = net.there(described, "--resume", "--without", VICTIM)
    assert ended.returncode == 0, ended.stderr
    without = outcome(net, "forgotten")
    line = net.metrics_log("forgotten")[-1]
    assert line["answered"] == list(STAYED)
    pictures, trained = {}, {}
    for name in HOSPITALS:
        told = net.deeds / "trained" / f"{name} {ROUND}.safetensors"
        trained[name] = load_file(told)
        with safe_open(told, "pt") as read:
            pictures[name] = int(read.metadata()["pictures"])
    stayed = sum(pictures[name] for name in STAYED)
    own = trained[VICTIM]
    found = {
        key: (whole[key] * (stayed + pictures[VICTIM]) - without[key] * stayed) / pictures[VICTIM]
        for key, value in own.items()
        if value.is_floating_point()
    }
    assert len(found) >= 20
    error = max(float((found[key] - own[key]).abs().max()) for key in found)
    offline = max(float((whole[key] - own[key]).abs().max()) for key in found)
    assert error < offline / 1000
