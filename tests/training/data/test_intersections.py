"""Columns, their values and bands; and their figures through every stage that judges models."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pytest
from pydantic import ValidationError

from training.data.intersections import IntersectionConfig
from training.messages.message import Broadcast
from training.rounds.client.evaluate import evaluate
from training.rounds.requests import EvaluateQuestion, unpack_blocks

AGE = IntersectionConfig(column="age", bands=(40, 60))


def test_bands_have_names():
    assert AGE.values == ("under 40", "40 to 59", "60 and over", "unknown")
    assert IntersectionConfig(column="age", bands=(18,)).values == ("under 18", "18 and over", "unknown")
    assert IntersectionConfig(column="age", bands=(4, 5, 9)).values[1:3] == ("4", "5 to 8")
    assert IntersectionConfig(column="sex").values == ()


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        ("0", "under 40"), ("39", "under 40"), ("39.9", "under 40"), ("-1", "under 40"),
        ("40", "40 to 59"), ("40.0", "40 to 59"), ("59.5", "40 to 59"), ("60", "60 and over"),
        ("1e3", "60 and over"), ("", "unknown"), ("old", "unknown"), ("nan", "unknown"), ("inf", "unknown"),
        ("60+", "unknown"),
    ],
)  # fmt: skip
def test_a_number_is_in_one_band_and_all_else_is_unknown(cell, value):
    assert AGE.value(cell) == value


def test_without_bands_the_cell_is_the_value():
    sex = IntersectionConfig(column="sex")
    assert [sex.value(cell) for cell in ("female", "60", "")] == ["female", "60", "unknown"]


@pytest.mark.parametrize("bands", [(60, 40), (40, 40)])
def test_bands_that_do_not_rise_are_refused(bands):
    with pytest.raises(ValidationError, match=f"bands rise, each number once; these are {bands[0]}"):
        IntersectionConfig(column="age", bands=bands)


@dataclass(frozen=True)
class Described:
    """A made-up dataset whose pictures have a sex, by their place, and an age."""

    base: object

    @property
    def traits(self):
        """Those of the base come last."""
        return {"sex": ("female", "male", "unknown"), "age": AGE.values, **self.base.traits}

    def __getattr__(self, name):
        return getattr(object.__getattribute__(self, "base"), name)

    def examples(self, client, split):
        examples = self.base.examples(client, split)
        places = np.arange(len(examples))
        return replace(examples, traits=np.column_stack([places % 5 // 3, places % 2 * 2, examples.traits]))


def expected_cells(data, subgroup, minimum):
    """Sizes of the cells of a subgroup, added over clients; all sizes here leave no small remainder."""
    sizes = {}
    for client in data.clients:
        examples = data.examples(client, "test")
        mine = examples.where(examples.subgroups == data.subgroups.index(subgroup))
        for place, column in enumerate(("sex", "age")):
            for number, value in enumerate(data.traits[column]):
                n = int((mine.traits[:, place] == number).sum())
                if n >= minimum:
                    sizes[column, value] = sizes.get((column, value), 0) + n
    return sizes


SIZES = {"north": {"light": (12, 6, 6, 60), "dark": (8, 4, 4, 20)}, "south": {"dark": (9, 4, 3, 50)}}


ASKED = {"intersections": [{"column": "sex"}, AGE.model_dump()]}
SERVED = [{"stage": "export"}, {"stage": "calibrate"}]


@pytest.fixture
def described(make_dataset):
    return Described(make_dataset(SIZES))


def check_cells(data, test):
    """Sizes by hand, and parts that add up to the block."""
    assert test
    for name, block in test.items():
        found = {trait: int(cell.n) for trait, cell in block.cells.items()}
        assert found == expected_cells(data, name, minimum=2), name
        ages = [cell.confusion for (column, _), cell in block.cells.items() if column == "age"]
        np.testing.assert_array_equal(sum(ages), block.point.confusion)


def test_every_stage_that_judges_tells_them(make_job, run_job, described, federate_block):
    stages = [
        {"stage": "finetune", "epochs": 1, "objective": federate_block()["objective"]},
        federate_block(rounds=1),
        {"stage": "personalize", "strategy": {"name": "finetune", "epochs": 1}},
    ]
    job = make_job(evaluation=ASKED, stages=stages)
    ran = run_job(job, described)
    for done in ran.result.stages.values():
        check_cells(described, done.outcome.test)
    told = ran.result.summary["test"]["intersections"]
    assert list(told) == ["sex", "age"]
    assert list(told["age"]) == list(AGE.values)
    assert told["age"]["40 to 59"] == {"light": None, "dark": None}
    assert told["sex"]["female"]["light"]["n"] == 36
    assert told["sex"]["male"]["light"] is None  # 24 pictures
    again = run_job(job, described, out=ran.out).result.summary  # from what the stages left on disk
    assert [json.dumps(stage["test"]) for stage in again["stages"]] == [
        json.dumps(stage["test"]) for stage in ran.result.summary["stages"]
    ]


@pytest.mark.long
def test_the_calibrated_model_and_its_bundle_tell_them(make_job, run_job, described, federate_block):
    ran = run_job(make_job(evaluation=ASKED, stages=[federate_block(rounds=1), *SERVED]), described)
    outcome = ran.result.stages["2-calibrate"].outcome
    check_cells(described, outcome.test)
    told = ran.result.summary["test"]
    assert outcome.bundles["global"].manifest.metrics["intersections"] == told["intersections"]
    for entry in told["by_subgroup"].values():
        assert {"coverage", "set_size", "reported", "reported_risk", "accuracy"} <= set(entry["intervals"])


def test_only_a_question_that_asks_for_them_is_answered_with_them(make_client, described):
    client = make_client("north", described)

    def cells(**asked):
        question = EvaluateQuestion(split="test", subgroups=("light",), **asked)
        broadcast = Broadcast("north", "0-federate", 1, "evaluate", options=question.model_dump())
        return unpack_blocks(evaluate(broadcast, client))["light"].cells

    assert not cells()
    assert set(cells(intersections=True)) == set(expected_cells(described, "light", 2))
