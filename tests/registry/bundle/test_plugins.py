"""Tables of parts, and settings that are strict about their keys."""

import sys
from typing import Annotated, Literal

import pytest
from pydantic import TypeAdapter, ValidationError

from registry.bundle.errors import PartError
from registry.bundle.plugins import PartTable
from training.config import FrozenConfig


class Mean(FrozenConfig):
    name: Literal["mean"] = "mean"
    trim: float = 0.0


class Median(FrozenConfig):
    name: Literal["median"] = "median"


TABLE: PartTable[FrozenConfig] = PartTable("aggregator", Mean, Median)

THEIRS = """
from abc import ABC, abstractmethod
from typing import Literal
from training.config import FrozenConfig

class Trimmed(FrozenConfig):
    name: Literal["trimmed"] = "trimmed"
    share: float = 0.1

class Imposter(FrozenConfig):
    name: Literal["mean"] = "mean"

class Nameless(FrozenConfig):
    share: float = 0.1

class Base(FrozenConfig, ABC):
    name: str
    @abstractmethod
    def aggregate(self): ...

class Half(Base):
    name: Literal["trimmed"] = "trimmed"

text = "no class"
"""


class Block(FrozenConfig):
    part: Annotated[FrozenConfig, TABLE]
    rounds: int = 1


def problem(value):
    with pytest.raises(ValidationError) as error:
        Block.model_validate(value)
    [only] = error.value.errors()
    return only


def test_a_misspelt_key_is_answered_with_the_nearest_wherever_it_is():
    told = problem({"part": {"name": "mean", "trimm": 0.1}})
    assert told["msg"] == "unknown key `trimm`; did you mean `trim`? valid: name, trim"
    assert told["loc"] == ("part", "mean")
    assert problem({"part": {"name": "mean"}, "ruonds": 2})["msg"].startswith(
        "unknown key `ruonds`; did you mean `rounds`?"
    )


def table(*own, **options):
    return PartTable("aggregator", *own, **options)


@pytest.fixture
def offer(install):
    """A distribution that offers one of `THEIRS` as an aggregator."""

    def lay(name, what, distribution="theirs", module="theirs_module"):
        install(distribution, {module: THEIRS}, {"dermfed.aggregators": {name: f"{module}:{what}"}})

    return lay


def test_a_part_from_another_distribution_stands_beside_ours(offer):
    offer("trimmed", "Trimmed")
    found = table(Mean, base=FrozenConfig)
    assert found.names == ["mean", "trimmed"]
    assert found.members == {"mean": Mean, "trimmed": found.find("trimmed")}
    assert found.find("trimmed").__module__ == "theirs_module"
    assert PartTable("sync", Mean).members == {"mean": Mean}


def test_it_is_read_written_and_described_like_ours(offer):
    class Holder(FrozenConfig):
        part: Annotated[FrozenConfig, TABLE]

    offer("trimmed", "Trimmed")
    read = Holder.model_validate({"part": {"name": "trimmed", "share": 0.2}})
    assert read.model_dump() == {"part": {"name": "trimmed", "share": 0.2}}
    assert Holder.model_validate_json(read.model_dump_json()) == read
    assert Holder(part=read.part) == read
    with pytest.raises(ValidationError) as error:
        Holder.model_validate({"part": {"name": "trimmed", "share": "much"}})
    assert error.value.errors()[0]["loc"] == ("part", "trimmed", "share")
    described = TypeAdapter(Holder).json_schema()
    assert described["properties"]["part"]["discriminator"]["mapping"] == {
        name: f"#/$defs/{kind}"
        for name, kind in [("mean", "Mean"), ("median", "Median"), ("trimmed", "Trimmed")]
    }
    assert described["$defs"]["Trimmed"]["properties"]["share"]["default"] == 0.1


def test_nothing_of_others_is_imported_before_it_is_asked_for(offer):
    offer("trimmed", "Trimmed")
    found = table(Mean)

    class Holder(FrozenConfig):
        part: Annotated[FrozenConfig, found]

    assert "trimmed" in found.names
    assert Holder.model_validate({"part": {"name": "mean"}}).part == Mean()
    with pytest.raises(ValidationError, match=r"did you mean `trimmed`\? valid: mean, trimmed"):
        Holder.model_validate({"part": {"name": "trimed"}})
    assert "theirs_module" not in sys.modules
    found.find("trimmed")
    assert "theirs_module" in sys.modules


def test_ours_is_never_replaced_and_a_list_tells_who_tried(offer):
    offer("mean", "Imposter")
    found = table(Mean)
    assert found.find("mean") is Mean
    assert found.names == ["mean"]
    assert "theirs_module" not in sys.modules
    ours = rf"{__name__}:Mean of dermfed"
    with pytest.raises(
        PartError, match=rf"two aggregators are called mean: {ours} and theirs_module:Imposter of theirs 1.0;"
    ):
        _ = found.members


def test_two_of_others_of_one_name_are_refused_and_both_named(offer):
    offer("trimmed", "Trimmed")
    offer("trimmed", "Trimmed", "others", "others_module")
    for ask in (lambda: table(Mean).find("trimmed"), lambda: table(Mean).members):
        with pytest.raises(PartError, match="two aggregators are called trimmed: ") as error:
            ask()
        assert "theirs_module:Trimmed of theirs 1.0" in str(error.value)
        assert "others_module:Trimmed of others 1.0" in str(error.value)
    assert not {"theirs_module", "others_module"} & sys.modules.keys()


@pytest.mark.parametrize(
    ("point", "said"),
    [
        ("gone_module:Trimmed", r"cannot be imported: ModuleNotFoundError: .*'gone_module'; mend"),
        ("theirs_module:Gone", r"cannot be imported: AttributeError: .*Gone"),
        ("broken_module:Trimmed", r"cannot be imported: ZeroDivisionError: division by zero"),
        ("theirs_module:text", r"is no subclass of FrozenConfig"),
        ("theirs_module:Imposter", r"has 'mean' as its `name`; it is to be the entry point's"),
        ("theirs_module:Nameless", r"has no `name`"),
        ("theirs_module:Half", r"does not define aggregate"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_when_it_is_asked_for_or_listed(install, point, said):
    modules = {"theirs_module": THEIRS, "broken_module": "1 / 0"}
    install("theirs", modules, {"dermfed.aggregators": {"trimmed": point}})
    found = table(Mean, base=FrozenConfig)
    assert found.find("mean") is Mean
    assert found.names == ["mean", "trimmed"]
    whole = rf"aggregator 'trimmed' \({point} of theirs 1.0\) {said}"
    with pytest.raises(PartError, match=whole):
        found.find("trimmed")
    with pytest.raises(PartError, match=whole):
        _ = found.members
    with pytest.raises(ValidationError, match=whole):
        TypeAdapter(Annotated[FrozenConfig, found]).validate_python({"name": "trimmed"})
