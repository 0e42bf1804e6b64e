"""Tables of parts, and settings that are strict about their keys."""

from importlib.metadata import EntryPoint
from typing import Annotated, Literal

import pytest
from pydantic import ValidationError

from registry.bundle.nearest import nearest
from training import parts
from training.config import FrozenConfig
from training.parts import PartTable


class Mean(FrozenConfig):
    name: Literal["mean"] = "mean"
    trim: float = 0.0


class Median(FrozenConfig):
    name: Literal["median"] = "median"


class Imposter(FrozenConfig):
    name: Literal["mean"] = "mean"


TABLE: PartTable[FrozenConfig] = PartTable("aggregator", Mean, Median)


class Block(FrozenConfig):
    part: Annotated[FrozenConfig, TABLE]
    rounds: int = 1


def problem(value):
    with pytest.raises(ValidationError) as error:
        Block.model_validate(value)
    [only] = error.value.errors()
    return only


def test_a_part_is_found_by_its_name_with_its_settings():
    assert Block.model_validate({"part": {"name": "mean", "trim": 0.1}}).part == Mean(trim=0.1)
    assert isinstance(Block.model_validate({"part": {"name": "median"}}).part, Median)
    assert isinstance(Block(part=Median()).part, Median)


def test_a_misspelt_part_is_answered_with_the_nearest():
    told = problem({"part": {"name": "medain"}})
    assert told["msg"] == "unknown aggregator `medain`; did you mean `median`? valid: mean, median"
    assert told["loc"] == ("part",)


def test_a_part_without_a_name_is_told_what_may_be_named():
    assert problem({"part": {"trim": 0.1}})["msg"] == "name the aggregator by its `name`; valid: mean, median"


def test_a_misspelt_key_is_answered_with_the_nearest_wherever_it_is():
    told = problem({"part": {"name": "mean", "trimm": 0.1}})
    assert told["msg"] == "unknown key `trimm`; did you mean `trim`? valid: name, trim"
    assert told["loc"] == ("part", "mean")
    assert problem({"part": {"name": "mean"}, "ruonds": 2})["msg"].startswith(
        "unknown key `ruonds`; did you mean `rounds`?"
    )


def test_settings_cannot_change_once_read():
    with pytest.raises(ValidationError, match="frozen"):
        Mean().trim = 1.0


def offer(monkeypatch, value):
    """Pretend that an installed distribution offers a part under this group."""

    class Point(EntryPoint):
        def load(self):
            return value

    def installed(group):
        return [Point("x", "y:z", group)] if group == "dermfed.aggregators" else []

    monkeypatch.setattr(parts, "entry_points", installed)


def test_a_part_from_another_distribution_stands_beside_ours(monkeypatch):
    offer(monkeypatch, Median)
    assert PartTable("aggregator", Mean).members == {"mean": Mean, "median": Median}
    assert PartTable("sync", Mean).members == {"mean": Mean}


def test_two_parts_of_one_name_are_refused_and_both_named(monkeypatch):
    offer(monkeypatch, Imposter)
    with pytest.raises(ValueError, match=rf"two aggregators are called mean: {__name__} and {__name__}"):
        _ = PartTable("aggregator", Mean).members


def test_the_same_part_twice_is_one_part(monkeypatch):
    offer(monkeypatch, Mean)
    assert PartTable("aggregator", Mean).members == {"mean": Mean}


def test_a_hint_names_the_closest_only_where_one_is_close():
    assert nearest("fedauto2", ["fedavg", "fedauto"]) == "did you mean `fedauto`? valid: fedavg, fedauto"
    assert nearest("zzz", ["fedavg"]) == "valid: fedavg"
    assert nearest("zzz", []) == "valid: none"
