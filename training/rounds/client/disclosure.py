"""What counts may be of: least numbers of patients, the ledger of releases, and noise."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import torch
from numpy.typing import NDArray

from registry.bundle.counting import GRAIN, NOISE, NoisyCounts
from registry.bundle.counts import Counts, Trait
from registry.bundle.labels import malignant_classes
from training.algorithms.client import Client
from training.data.cells import count_people, unsuppressed
from training.data.dataset import DECLARED_TONE, FOLDED_CLASSES, Examples, traits_of
from training.data.folds import by_fold
from training.messages import Tensors, Update
from training.privacy.noisy_counts import discrete_gaussian
from training.rounds.client.ledger import ANSWERS, disclosable
from training.rounds.requests import EvaluateRequest, read_blocks


def as_they_are(examples: Examples) -> Examples:
    """The examples, whole."""
    return examples


def sendable(
    client: Client,
    request: EvaluateRequest,
    view: Callable[[Examples], Examples] = as_they_are,
    *,
    in_folds: bool = False,
) -> dict[str, Examples]:
    """The labelled pictures of each wanted subgroup of which counts may leave, in a view of them.

    One with fewer than the job's minimum is left out, and what would disclose few patients together with
    what was disclosed before is held back. Where counts get noise neither is done: it would depend on the
    pictures. `in_folds` every fold of a subgroup is a part, and the account of releases holds each: models of
    a coordinator's own making could tell of one alone.
    """
    parts = {
        name: view(part.where(part.labels >= 0))
        for name, part in client.by_subgroup(request.split).items()
        if name in request.subgroups
    }
    if client.noisy:
        return parts
    if in_folds:
        parts = by_fold(parts)
    if request.one_per_lesion:
        parts = {name: one_of_each(part, client.min_count) for name, part in parts.items()}
    return disclosable(client, ANSWERS, parts)


def one_of_each(part: Examples, least: int) -> Examples:
    """One picture of each lesion; all, where fewer than `least` patients have more than one of a lesion.

    Counts of all pictures may have been disclosed, or be requested: the difference would be of these few.
    """
    first = first_of_each(part.lesions)
    return part if 0 < part.where(~first).num_people < least else part.where(first)


def first_of_each(lesions: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pictures `(n,)` are the first of their lesion."""
    first = np.zeros(len(lesions), dtype=np.bool_)
    first[np.unique(lesions, return_index=True)[1]] = True
    return first


def disclosable_traits(
    client: Client, part: Examples, traits: Mapping[str, Sequence[str]], columns: Sequence[str]
) -> dict[Trait, NDArray[np.bool_]]:
    """Which pictures `(n,)` of a subgroup have each trait whose counts may leave, column after column."""
    disclosed = unsuppressed(part, traits, client.min_count)
    admitted: dict[Trait, NDArray[np.bool_]] = {}
    for column in columns:
        masks = {value: keep for (of, value), keep in disclosed.items() if of == column}
        sets = {value: part.where(keep) for value, keep in masks.items()}
        whole = without_holding_back(client, sets)
        admitted |= {(column, value): masks[value] for value in whole}
    return admitted


def patients_by_tone(client: Client, parts: Mapping[str, Examples]) -> NDArray[np.int64]:
    """How many patients of each skin tone that a subgroup names some parts have, `(tones,)`.

    A tone of fewer patients than the job's minimum is 0, and must not follow from how many the subgroup has:
    where there is one, every other tone of the subgroup is reported as the minimum, which it has at least, or
    as 0 where even that would leave too few numbers open. So it is where exact numbers would tell a few
    patients apart together with what was disclosed before.
    """
    traits, least = traits_of(client.dataset), max(client.min_count, 1)
    tones = list(traits.get(DECLARED_TONE, ()))[:-1]
    sent = np.zeros(len(tones), dtype=np.int64)
    for part in parts.values():
        if part.traits is None or not tones:
            continue
        of_each = part.traits[:, list(traits).index(DECLARED_TONE)]
        sizes = count_people(of_each, part.people, len(tones) + 1)[:-1]
        enough, few = sizes >= least, int(((sizes > 0) & (sizes < least)).sum())
        exact = {} if few else disclosable_traits(client, part, traits, [DECLARED_TONE])
        if len(exact) == enough.sum():
            sent[enough] = sizes[enough]
        elif part.num_people >= enough.sum() * least + few * (least - 1):
            sent[enough] = least
    return sent


def without_holding_back(client: Client, sets: Mapping[str, Examples]) -> list[str]:
    """The names of the sets that may be disclosed as they are."""
    while sets:
        kept = disclosable(client, ANSWERS, sets)
        whole = {name: part for name, part in kept.items() if len(part) == len(sets[name])}
        if len(whole) == len(kept):
            return list(whole)
        sets = whole
    return []


@dataclass(frozen=True)
class Noise:
    """The noise that a client adds to its counts.

    Attributes:
        variance: v, in each cell, in sixteenths.
        together: whether others' noise hides this client's counts too. Then it adds its part for every
            subgroup that is asked for; else for those that it holds, as the census tells them.
    """

    variance: Fraction
    together: bool

    def added(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whole numbers with independent noise in each."""
        return values + discrete_gaussian(self.variance, values.size).reshape(values.shape)


def noisy_blocks(
    update: Update, request: EvaluateRequest, client: Client, noise: Noise, *, histogram: bool
) -> tuple[Tensors, int]:
    """The blocks of an answer with noise, and how many units of noise they cost each of their subgroups.

    Args:
        update: with exact blocks.
        request: what was asked.
        client: of the pictures.
        noise: to add.
        histogram: whether the histogram of scores is sent, too.
    """
    malignant = np.array([False, True]) if request.folded else malignant_classes(client.dataset.labels)
    both = bool(malignant.any() and not malignant.all())
    classes = len(FOLDED_CLASSES) if request.folded else len(malignant)
    points = {name: block.point for name, block in read_blocks(update.tensors).items()}
    sent = [name for name in request.subgroups if noise.together or name in points]
    found: dict[str, torch.Tensor] = {}
    for name in sent:
        exact = NoisyCounts.of(points.get(name, Counts.zeros(classes)), histogram=histogram, both_kinds=both)
        found |= {
            f"{array}/{name}": torch.from_numpy(values)
            for array, values in with_noise(exact, noise).to_arrays().items()
        }
    nothing = NoisyCounts.of(Counts.zeros(classes), histogram=histogram, both_kinds=both)
    return found, len(nothing.parts)


def with_noise(counts: NoisyCounts, noise: Noise) -> NoisyCounts:
    """Counts with noise in every cell."""
    sent = {name: noise.added(values) for name, values in counts.parts.items()}
    marked = np.array([int(noise.variance * GRAIN), counts.both_kinds])
    return NoisyCounts.from_arrays({**counts.to_arrays(), **sent, NOISE: marked})
