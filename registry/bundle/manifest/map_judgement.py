"""What was found of a model's maps: counts and curves over pictures, of all and by subgroup.

Whether the maps may be shown is not written here; it follows from these (`registry.bundle.maps.verdict`).
"""

from typing import Annotated, Final

from pydantic import Field, model_validator

from registry.bundle.frozen import Frozen

Curve = tuple[
    Annotated[float, Field(ge=0, le=1)],
    Annotated[float, Field(ge=0, le=1)],
    Annotated[float, Field(ge=0, le=1)],
    Annotated[float, Field(ge=0, le=1)],
]
"""The mean probability of the class as ever more cells are covered: those of `covering.SHARES`."""

FEWEST: Final = 5
"""Patients of a subgroup of whom figures are told; fewer would tell of single ones."""


class MapFigures(Frozen):
    """What was found on pictures, one of each patient.

    Attributes:
        n: how many.
        against_elsewhere: in how many of them covering the map's strongest cells cost the class more than
            covering the same cells moved elsewhere, by the mean over the curve; where both cost the same,
            half of one.
        against_others: likewise, than covering the strongest cells of another picture's map.
        against_shuffled: likewise, than those of the map of shuffled weights.
        score: the mean probability of the class with nothing covered.
        by_map: its curve as the map's strongest cells are covered.
        by_elsewhere: as the same cells moved elsewhere are.
        by_others: as the strongest cells of another picture's map are.
        by_shuffled: as the strongest cells of the map of shuffled weights are.
        masks: of how many it is known where the lesion is.
        hits: in how many of those the map's strongest cell is on it.
        chance: the mean share of cells that are on it there; None where it is known of none.
        shuffled_hits: in how many of those the strongest cell of the map of shuffled weights is on it.
        centre_hits: in how many the middle of the picture is.
    """

    n: int = Field(ge=1)
    against_elsewhere: float = Field(ge=0)
    against_others: float = Field(ge=0)
    against_shuffled: float = Field(ge=0)
    score: float = Field(ge=0, le=1)
    by_map: Curve
    by_elsewhere: Curve
    by_others: Curve
    by_shuffled: Curve
    masks: int = Field(0, ge=0)
    hits: int = Field(0, ge=0)
    chance: float | None = Field(None, ge=0, le=1)
    shuffled_hits: int = Field(0, ge=0)
    centre_hits: int = Field(0, ge=0)

    @model_validator(mode="after")
    def _possible(self) -> "MapFigures":
        wins = (self.against_elsewhere, self.against_others, self.against_shuffled)
        if max(*wins, self.masks) > self.n:
            raise ValueError(f"more of the {self.n} pictures were counted than there are")
        if any((2 * one) % 1 for one in wins):
            raise ValueError("pictures are counted whole or by halves")
        if max(self.hits, self.shuffled_hits, self.centre_hits) > self.masks:
            raise ValueError(f"there are more hits than the {self.masks} pictures whose lesion is known")
        if (self.chance is None) != (self.masks == 0):
            raise ValueError("there is a `chance` where it is known of a lesion where it is, and only there")
        return self


class SubgroupMapFigures(MapFigures):
    """What was found on the pictures of one subgroup.

    Attributes:
        subgroup: whose they are, as they were named where the maps were judged.
    """

    subgroup: str = Field(min_length=1, max_length=200)


class MapJudgement(Frozen):
    """What was found of a model's maps.

    Attributes:
        model: sha256 of the `model.onnx` that was judged.
        overall: on all pictures.
        by_subgroup: by subgroup; those of fewer than `FEWEST` patients are left out.
        seed: of what was drawn at random.
        code_version: the dermfed that judged.
    """

    model: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    overall: MapFigures
    by_subgroup: tuple[SubgroupMapFigures, ...] = ()
    seed: int
    code_version: str

    def check_model(self, sha256: str) -> None:
        """Checks that a model is the one that was judged.

        Raises:
            ValueError: it is another.
        """
        if self.model != sha256:
            raise ValueError(
                f"`maps` was found of a model with {self.model}; this one has {sha256}: judge its own"
            )

    @model_validator(mode="after")
    def _subgroups_of_all(self) -> "MapJudgement":
        names = [one.subgroup for one in self.by_subgroup]
        if len(set(names)) != len(names):
            raise ValueError("a subgroup is there twice")
        if any(one.n < FEWEST for one in self.by_subgroup):
            raise ValueError(f"a subgroup has fewer than {FEWEST} patients")
        if sum(one.n for one in self.by_subgroup) > self.overall.n:
            raise ValueError("the subgroups have more pictures than there are")
        return self
