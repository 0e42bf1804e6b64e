"""What a node says of a subgroup of which it has too few pictures: recorded at the wire, and taken apart."""

import json

import numpy as np
import pytest

from clients.data.adapters.table import make_adapter
from clients.data.manifest import Manifest, Row
from clients.data.manifest_file import write_manifest
from personalization.report.data import report_data
from training.data.dataset import SPLITS
from training.engines.wire import ResponseHeader, read_payload
from training.jobs.disclosure_report import over_network
from training.rounds.requests import read_blocks

FEW, LEAST, EACH = 2, 3, 12  # pictures of the small group; the job's minimum; pictures of a split
SMALL = "east"
TONES = {"light": "2", "dark": "5"}
CALIBRATION = ("log_likelihoods", "counts", "embeddings", "distances")
PERSONAL = [
    {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}, "selection": {"band": 1.0}},
    {"stage": "export"},
    {"stage": "calibrate"},
]


def sites(tone, few):
    """Where on the body: of the small hospital's light pictures two are of a nose, too few as well."""
    if not few:
        return ["nose", "arm"] * (EACH // 4)
    return ["arm"] * FEW if tone == "dark" else ["nose"] * FEW + ["arm"] * 5 + ["leg"] * (EACH - 2 * FEW - 5)


@pytest.fixture(scope="session")
def manifests(tmp_path_factory):
    """Four hospitals with twelve pictures in each split, half of them dark; of east's only two."""
    folder = tmp_path_factory.mktemp("small groups")
    paths = {}
    for seed, name in enumerate(("north", "south", "east", "west")):
        options = {"pictures": EACH * len(SPLITS), "size": 32, "seed": seed}
        made = make_adapter("synthetic", options).manifest(folder / f"{name}-pictures")
        images = iter(made.rows)
        rows = []
        for split in SPLITS:
            for tone in TONES:
                for site in sites(tone, name == SMALL):
                    number, picture = len(rows), next(images)
                    rows.append(
                        Row(
                            str(made.folder / picture.image),
                            ("MEL", "NV")[number % 2],
                            TONES[tone],
                            "fitzpatrick",
                            lesion_id=f"{name} {number}",
                            site=site,
                            split=split,
                        )
                    )
        assert len(rows) == EACH * len(SPLITS)
        write_manifest(Manifest.of(rows, folder), folder / f"{name}.csv")
        paths[name] = folder / f"{name}.csv"
    return paths


def noting(real, texts):
    """The method, with what it returns noted."""

    def noted(*said):
        texts.append(real(*said))
        return texts[-1]

    return noted


@pytest.fixture
def told(own_job, net, federate_block):
    """`told(*stages)`: all that each node's handlers return in a run: `(texts, answers)` by node."""

    def record(*stages):
        groups = {"light": ["1", "2", "3"], "dark": ["4", "5", "6"]}
        first = federate_block(rounds=1, aggregator={"name": "q-ffl", "q": 1.0}, evaluate_on="validation")
        job = own_job(
            data={"subgroups": {"scale": "fitzpatrick", "groups": groups}},
            engine={"network": {"heartbeat_timeout": 60}},  # each is asked everything once
            privacy={"min_count": LEAST},
            evaluation={"intersections": [{"column": "site"}]},
            stages=[first, *stages],
        )
        there = net(job)
        found = {name: ([], []) for name in there.channels}
        for name, line in there.channels.items():
            texts, answers = found[name]
            for method in ("handshake", "register", "join"):
                setattr(line.reception, method, noting(getattr(line.reception, method), texts))

            def answer(header, body, real=line.reception.answer, answers=answers):
                given = real(header, body)
                answers.append((ResponseHeader.model_validate_json(given[0]), read_payload(given[1])))
                return given

            line.reception.answer = answer
        there.run()
        return found

    return record


def blocks_of(answers):
    """Every block of counts in a node's answers, as (request, subgroup, block)."""
    return [
        (header.ask, name, block)
        for header, tensors in answers
        if header.ask in ("evaluate", "test", "counts")
        for name, block in read_blocks(tensors).items()
    ]


def check_figures(small, other):
    """Nothing about east's two dark pictures; of the others' six there is everything."""
    for header, _ in small:
        assert header.failure is None
        assert "dark" not in header.losses
        assert not [name for name in header.scalars if "dark" in name]
        if header.ask != "fit":
            assert "dark" not in header.num_examples
    trained = [header for header, _ in other if header.ask == "fit"]
    assert {"dark", "light"} == set(trained[0].losses)
    assert "received_loss/dark" in trained[0].scalars
    assert {name for _, name, _ in blocks_of(other)} == {"light", "dark"}
    assert {ask for ask, name, _ in blocks_of(other) if name == "dark"} >= {"evaluate", "test"}
    assert {name for _, name, _ in blocks_of(small)} == {"light"}
    for _, _, block in blocks_of(small):
        assert int(block.point.n) == EACH - FEW
    cells = {trait[1] for ask, _, block in blocks_of(small) if ask == "test" for trait in block.cells}
    assert cells == {"arm"}  # with `leg` told as well, those of the nose would be what is left
    assert {trait[1] for _, _, block in blocks_of(other) for trait in block.cells} == {"nose", "arm"}


def test_a_round_and_its_test_tell_nothing_of_a_few(told):
    found = told()
    check_figures(found[SMALL][1], found["north"][1])
    texts = found[SMALL][0]
    assert len(texts) == 3
    introduced = json.loads(texts[1])
    assert set(introduced) == {"client", "labels", "subgroups", "fingerprint", "source", "unseen"}


@pytest.mark.long
def test_personal_models_and_calibration_tell_nothing_of_a_few(told):
    found = told(*PERSONAL)
    small, other = (found[name][1] for name in (SMALL, "north"))
    check_figures(small, other)
    assert {header.ask for header, _ in small} >= {"fit", "evaluate", "test", *CALIBRATION}
    for answers, n in ((small, {"light": EACH - FEW}), (other, dict.fromkeys(TONES, EACH // 2))):
        for header, tensors in answers:
            asked = TONES if header.track == "global" else [header.track]
            expected = {name: count for name, count in n.items() if name in asked}
            if header.ask == "log_likelihoods":
                assert header.num_examples == expected
                assert bool(tensors["log_likelihoods"].any()) == bool(expected)
            if header.ask == "distances":
                assert int(next(iter(tensors.values())).sum()) == sum(expected.values())
            if header.ask == "embeddings":
                counts = tensors["pictures"].numpy()
                assert np.all((counts == 0) | (counts >= LEAST))


@pytest.mark.parametrize("least", [LEAST, 1])
def test_the_run_and_its_report_say_that_a_few_are_withheld(own_job, net, federate_block, least):
    """Only the hospital knows how many; a reader of a rare tone has to know that some are missing."""
    stages = [federate_block(rounds=1, evaluate_on=None)]
    result = net(over_network(own_job(privacy={"min_count": least}, stages=stages))).run()
    said = f"each hospital withholds what is of fewer than {least} patients"
    for lines in (result.summary["notes"], report_data(result).notes):
        assert any(line.startswith(said) for line in lines) == (least > 1)
