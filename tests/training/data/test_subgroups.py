"""The settings of subgroups and of intersections."""

import json
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from pydantic import ValidationError

from tests.training.jobs.test_job import JOB
from training.data.subgroups import IntersectionConfig, ToneGroups
from training.errors import JobError
from training.jobs.job import Job, read_job
from training.messages import Broadcast
from training.rounds.client.evaluate import evaluate
from training.rounds.requests import EvaluateRequest, unpack_blocks

TWO_SCALES = """
groups:
  dark: {fitzpatrick: [5, VI], milk10k: [0, 1, 2]}
  light: {fitzpatrick: [I, "2", 3.0, 4], milk10k: [3, 4, 5]}
"""


def job(text: str) -> dict[str, object]:
    found = deepcopy(JOB)
    found["data"]["subgroups"] = yaml.safe_load(text)  # type: ignore[index]
    return found


def tones(text: str) -> dict[str, dict[str, tuple[str, ...]]]:
    groups = Job.model_validate(job(text)).data.subgroups
    assert isinstance(groups, ToneGroups)
    return {name: dict(by_scale) for name, by_scale in groups.tones.items()}


def refused(text: str, tmp_path: Path) -> list[str]:
    """The lines after the file's name."""
    path = tmp_path / "job.yaml"
    path.write_text(yaml.safe_dump(job(text)))
    with pytest.raises(JobError) as found:
        read_job(path)
    return str(found.value).splitlines()[1:]


def test_numbers_stand_for_their_texts():
    as_numbers = Job.model_validate(job("{scale: milk10k, groups: {dark: [0, 1, 2], light: [4, 5]}}"))
    as_texts = Job.model_validate(job('{scale: milk10k, groups: {dark: ["0", "1", "2"], light: ["4", "5"]}}'))
    assert as_numbers == as_texts
    assert as_numbers.digest == as_texts.digest


def test_a_group_has_values_of_several_scales_each_in_its_own_spelling():
    assert tones(TWO_SCALES) == {
        "dark": {"fitzpatrick": ("5", "6"), "milk10k": ("0", "1", "2")},
        "light": {"fitzpatrick": ("1", "2", "3", "4"), "milk10k": ("3", "4", "5")},
    }


@pytest.mark.parametrize(
    "text", [TWO_SCALES, "{scale: fitzpatrick, groups: {dark: [5, VI]}}", "{column: clinic}"]
)
def test_a_resolved_job_is_read_as_the_same_job(text):
    first = Job.model_validate(job(text))
    again = Job.model_validate(first.resolved())
    assert again == first
    assert again.digest == first.digest


def test_which_values_make_a_group_is_part_of_a_jobs_identity():
    other = TWO_SCALES.replace("milk10k: [0, 1, 2]", "milk10k: [0, 1]")
    assert Job.model_validate(job(TWO_SCALES)).digest != Job.model_validate(job(other)).digest


@pytest.mark.parametrize(
    ("text", "place", "parts"),
    [
        (
            "{groups: {dark: [5, 6]}}",
            "groups",
            ["dark is a plain list", "dark: {fitzpatrick: [...]}", "scale: fitz"],
        ),
        ("{scale: monk, groups: {dark: {monk: [5]}}}", "groups", ["dark names scales", "remove `scale`"]),
        (
            "{scale: fitzpatric, groups: {a: [1]}}",
            "scale",
            ["'fitzpatric'", "did you mean `fitzpatrick`", "monk"],
        ),
        ("{groups: {a: {monkk: [1]}}}", "groups", ["group a", "'monkk'", "did you mean `monk`", "milk10k"]),
        (
            "{groups: {a: {fitzpatrick: [7]}}}",
            "groups",
            ["group a: skin tone '7'", "1, 2, 3, 4, 5, 6 (or I to VI)", "correct"],
        ),
        (
            "{scale: fitzpatrick, groups: {a: [0]}}",
            "groups",
            ["group a: skin tone '0'", "scale fitzpatrick", "correct it"],
        ),
        (
            "{scale: fitzpatrick, groups: {a: [4], b: [IV]}}",
            "groups",
            ["4 (scale fitzpatrick)", "a and b", "remove"],
        ),
        ("{scale: monk, groups: {a: [4, 4]}}", "groups", ["group a names monk 4 twice"]),
        ("{groups: {a: {monk: [4], MONK: [5]}}}", "groups", ["group a names the scale monk twice"]),
        (
            "{scale: monk, groups: {a: []}}",
            "groups",
            ["group a names no value of the scale monk", "10", "remove it"],
        ),
        ("{groups: {a: {}}}", "groups", ["group a is empty", "fitzpatrick: [5, 6]", "remove it"]),
        ("{groups: {}}", "groups", ["no group", "remove `subgroups`"]),
        ("{scale: monk}", "groups", ["Field required"]),
        ("{groups: {a: {monk: 5}}}", "groups.a.monk", ["should be a list; found 5"]),
        ("{groups: {a: {monk: [yes]}}}", "groups.a.monk.0", ["valid string; found True"]),
        ("{scle: monk, groups: {a: [5]}}", "", ["unknown key `scle`; did you mean `scale`"]),
        ("{of: monk, groups: {a: [5]}}", "", ["unknown key `of`; valid: scale, groups"]),
        ("{column: [clinic]}", "column", ["valid string"]),
        (
            "{column: clinic, groups: {a: {monk: [5]}}}",
            "",
            ["by skin tone (`groups`) or by a `column`", "remove"],
        ),
        ("fitzpatrick", "", ["scale: fitzpatrick, groups:", "{column: clinic}", "found 'fitzpatrick'"]),
    ],
)
def test_a_wrong_form_gets_one_line_about_what_was_meant(text, place, parts, tmp_path):
    (line,) = refused(text, tmp_path)
    assert line.startswith(f"  data.subgroups{place and '.'}{place}: ")
    assert [part for part in parts if part not in line] == []
    assert "Subgroups" not in line
    assert "[one scale]" not in line


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
        request = EvaluateRequest(split="test", subgroups=("light",), **asked)
        broadcast = Broadcast("north", "0-federate", 1, "evaluate", options=request.model_dump())
        return unpack_blocks(evaluate(broadcast, client))["light"].cells

    assert not cells()
    assert set(cells(intersections=True)) == set(expected_cells(described, "light", 2))
