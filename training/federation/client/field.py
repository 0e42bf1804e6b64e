"""A client's answers about the field: whether it tells of a version and a subgroup, and sums.

It has no picture and no patient for them, only the counts that its hospital gave it. A client that was given
none, or too few, answers with zeros.
"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import model_validator

from registry.bundle.metrics.field import FieldSums
from training.algorithms.client import Client
from training.config import FrozenConfig
from training.errors import MessageError
from training.federation.client.field_account import admit_cell, tells
from training.federation.questions import FIELD_TELLING
from training.messages.message import Broadcast, Tensors, Update, reply

TELLING, GIVEN = "telling", "given"
COUNTED, ESTIMATED = "counted", "estimated"


class FieldQuestion(FrozenConfig):
    """What to tell of.

    Attributes:
        split: what is counted, in place of a split of pictures: by it all sums of the field are over the same
            hospitals in a run. It has no default, so that no question is without.
        versions: digests of bundles.
        subgroups: names.
        cells: places of a version and of a subgroup that sums are wanted of.
    """

    split: Literal["field"]
    versions: tuple[str, ...]
    subgroups: tuple[str, ...]
    cells: tuple[tuple[int, int], ...] = ()

    @model_validator(mode="after")
    def _cells_of_these(self) -> "FieldQuestion":
        places = [range(len(self.versions)), range(len(self.subgroups))]
        if any(v not in places[0] or g not in places[1] for v, g in self.cells):
            raise ValueError("a cell is of none of the versions and subgroups")
        return self


def answer_field(broadcast: Broadcast, client: Client) -> Update:
    """Answer `field_telling` with zeros and ones, or `field` with sums."""
    question = FieldQuestion.model_validate(broadcast.options)
    if broadcast.ask == FIELD_TELLING:
        given = torch.tensor([client.field is not None], dtype=torch.int32)
        return reply(broadcast, tensors={TELLING: torch.from_numpy(telling(client, question)), GIVEN: given})
    if not question.cells:
        raise MessageError(f"`{broadcast.ask}` of {broadcast.stage} asks {client.id} for sums of nothing")
    sums = [sums_of(client, question.versions[v], question.subgroups[g]) for v, g in question.cells]
    return reply(broadcast, tensors=pack_sums(sums))


def telling(client: Client, question: FieldQuestion) -> NDArray[np.int32]:
    """Which versions and subgroups the client tells of, `(versions, subgroups)`."""
    found = np.zeros((len(question.versions), len(question.subgroups)), dtype=np.int32)
    for v, version in enumerate(question.versions):
        for g, subgroup in enumerate(question.subgroups):
            cell = None if client.field is None else client.field.cell(version, subgroup)
            found[v, g] = tells(cell, client.min_count)
    return found


def sums_of(client: Client, version: str, subgroup: str) -> FieldSums:
    """The client's sums of one version and one subgroup; of nobody where it does not tell."""
    cell = None if client.field is None else client.field.cell(version, subgroup)
    if cell is None or not tells(cell, client.min_count):
        return FieldSums.none()
    return FieldSums.of(admit_cell(client.releases, client.id, cell, client.min_count).strata)


def pack_sums(sums: Sequence[FieldSums]) -> dict[str, torch.Tensor]:
    """Sums as tensors, `(cells, 2, …)`."""
    counted = np.stack([one.counted for one in sums])
    estimated = np.stack([one.estimated for one in sums])
    return {COUNTED: torch.from_numpy(counted), ESTIMATED: torch.from_numpy(estimated)}


def read_sums(tensors: Tensors, cells: int) -> list[FieldSums]:
    """Sums from the tensors that `pack_sums` made.

    Raises:
        MessageError: they are none.
    """
    none = FieldSums.none()
    wanted = {COUNTED: (cells, *none.counted.shape), ESTIMATED: (cells, *none.estimated.shape)}
    found = {name: tuple(tensors[name].shape) if name in tensors else None for name in wanted}
    if found != wanted:
        raise MessageError(f"sums of the field have shapes {found}; expected {wanted}")
    counted, estimated = (tensors[name].numpy() for name in (COUNTED, ESTIMATED))
    return [FieldSums(counted[place], estimated[place]) for place in range(cells)]
