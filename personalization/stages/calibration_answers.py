"""A client's answers to the requests of `calibrate`: sums over what a graph says of its pictures."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray

from personalization.calibration.at_thresholds import BETWEEN, STEPS, CountsAt, read_thresholds
from personalization.calibration.conclusions import count_nodes
from personalization.calibration.conformal import TRUTH, count_distances, count_truths, no_distances
from personalization.calibration.mahalanobis import ClassSums, class_sums, distances_left_out, total
from personalization.calibration.temperature import TEMPERATURES, log_likelihoods
from personalization.calibration.triage import count_malignancies, most_thresholds
from personalization.stages.calibration_features import FOLD, Judged, judged, make_graph_features
from registry.bundle.cases import read_pattern
from registry.bundle.conclusions import Tree
from registry.bundle.counts import Thresholds, is_ruled_out
from registry.bundle.labels import kind_of_each, kinds_of, malignant_classes
from registry.bundle.model import Gaussians
from registry.bundle.score_bins import SCORE_BINS, highest, malignancy_probability, middle, score_bin
from training.algorithms.client import Client
from training.data.cases import under, without
from training.data.dataset import Examples, Split, case_of
from training.errors import MessageError
from training.messages import Broadcast, Update, prefixed, reply, unknown_request
from training.models.export import GRAPH
from training.rounds.client.disclosure import as_they_are, patients_by_tone, sendable
from training.rounds.client.embed import ENCODER
from training.rounds.client.evaluate import reply_blocks
from training.rounds.client.ledger import EMBEDDING_SUMS, disclosable, is_first_request, warn_once
from training.rounds.requests import EMBED, EvaluateRequest

LIKELIHOODS, MALIGNANCY, COUNTS = "log_likelihoods", "malignancy", "counts"
EMBEDDINGS, DISTANCES, TONES = "embeddings", "distances", "tones"
NODES = "nodes"
AT_THRESHOLDS = "at_thresholds"  # its thresholds are a tensor, named by the histogram that they cut
REQUESTS = frozenset(
    {LIKELIHOODS, MALIGNANCY, TRUTH, NODES, AT_THRESHOLDS, COUNTS, EMBEDDINGS, DISTANCES, TONES}
)
LEVEL, SO_FAR, TRIAGE = "level", "so_far", "triage"  # of a request about nodes: see `NodesAsked`
MEANS, WHITENING, LEFT_OUT = "means", "whitening", "left_out"
COUNTED = "counted"  # how many cases a client's log-likelihoods are of

View = Callable[[Examples], Examples]
"""What is shown of some examples."""


@dataclass(frozen=True)
class NodesAsked:
    """At which level of the tree of diagnoses nodes are counted, and what was fitted before.

    Attributes:
        level: its place in the tree.
        so_far: in each view the thresholds of all nodes, `(views, nodes)`.
        triage: in each view the bins below which lesions are ruled out and from which they are urgent,
            `(views, 2)`.
    """

    level: int
    so_far: NDArray[np.int64]
    triage: NDArray[np.int64]

    def to_tensors(self) -> dict[str, torch.Tensor]:
        """As a request has them."""
        values = {LEVEL: np.array(self.level), SO_FAR: self.so_far, TRIAGE: self.triage}
        return {name: as_counts(of) for name, of in values.items()}

    @classmethod
    def of(cls, broadcast: Broadcast, tree: Tree, views: int) -> "NodesAsked":
        """Read them.

        Raises:
            MessageError: they are none of this tree and so many views.
        """
        shapes = {LEVEL: (), SO_FAR: (views, len(tree.nodes)), TRIAGE: (views, 2)}
        read = {}
        for name, shape in shapes.items():
            tensor = broadcast.tensors.get(name)
            if tensor is None or tensor.shape != shape or tensor.dtype != torch.int32:
                raise MessageError(f"the server asks about nodes without int32 `{name}` of shape {shape}")
            read[name] = tensor.numpy().astype(np.int64)
        level = int(read[LEVEL])
        if not 0 <= level < len(tree.levels):
            raise MessageError(f"the server asks about level {level} of {len(tree.levels)} of the tree")
        return cls(level, read[SO_FAR], read[TRIAGE])


def as_counts(counts: NDArray[np.int64]) -> torch.Tensor:
    """Counts as a tensor to send."""
    return torch.from_numpy(counts.astype(np.int32))


def answer_calibration(broadcast: Broadcast, client: Client) -> Update:
    """The client's part: features first, then sums over its pictures.

    About cases it answers once for each set of patterns, and once for each part that is left out, with the
    answer's place before the tensors' names.
    """
    if broadcast.ask == EMBED:
        return make_graph_features(broadcast, client)
    options = dict(broadcast.options)
    if broadcast.ask == TONES:
        parts = sendable(client, EvaluateRequest.model_validate(options))
        return reply(broadcast, tensors={TONES: as_counts(patients_by_tone(client, parts))})
    encoder = options.pop(ENCODER)
    request = EvaluateRequest.model_validate(options)
    model = judged(broadcast, client, encoder, request.split)
    if broadcast.ask == AT_THRESHOLDS:
        return answer_at_thresholds(broadcast, request, client, model)
    if broadcast.ask == NODES:
        return answer_nodes(broadcast, request, client, model)
    if not request.patterns:
        return answer_in_view(broadcast, request, client, model, as_they_are)
    tensors: dict[str, torch.Tensor] = {}
    for place, view in enumerate(views(request, client)):
        update = answer_in_view(broadcast, request, client, model, view)
        counted = torch.tensor([sum(update.num_examples.values())], dtype=torch.int32)
        beside = {COUNTED: counted} if broadcast.ask == LIKELIHOODS else {}
        tensors |= prefixed({**update.tensors, **beside}, f"{place}/")
    return reply(broadcast, tensors=tensors)


def answer_in_view(
    broadcast: Broadcast, request: EvaluateRequest, client: Client, model: Judged, view: View
) -> Update:
    """The sums over what is seen of the pictures in one view."""
    if broadcast.ask == EMBEDDINGS:
        sums = embedding_sums(model, client, request.split, view)
        return reply(broadcast, tensors=sums.to_tensors())
    folded = answers_by_fold(client, request) and broadcast.ask != COUNTS
    parts = sendable(client, request, view, in_folds=folded)
    if broadcast.ask == LIKELIHOODS:
        likelihoods = np.zeros_like(TEMPERATURES)
        whole: dict[str, list[Examples]] = {}  # nothing is told by fold, and a sum is rounded once
        for name, part in parts.items():
            whole.setdefault(name.rpartition("/")[0] if folded else name, []).append(part)
        for pieces in whole.values():
            logits = np.concatenate([model.run(each).logits for each in pieces])
            likelihoods += log_likelihoods(logits, np.concatenate([each.labels for each in pieces]))
        counted = {name: sum(map(len, pieces)) for name, pieces in whole.items()}
        tensors = {LIKELIHOODS: torch.from_numpy(likelihoods)}
        return reply(broadcast, tensors=tensors, num_examples=counted)
    if broadcast.ask == MALIGNANCY:
        counts = malignancy_counts(model, parts, client, request, client.smallest_cell)
        return reply(broadcast, tensors={MALIGNANCY: as_counts(np.stack(counts))})
    if broadcast.ask == TRUTH:
        truths = np.zeros(SCORE_BINS, dtype=np.int64)
        for part in parts.values():
            probabilities = model.run(part).probabilities
            truths += count_truths(probabilities, part.labels, part.people, client.smallest_cell)
        return reply(broadcast, tensors={TRUTH: as_counts(truths)})
    if broadcast.ask == DISTANCES:
        gaussians = Gaussians(broadcast.tensors[MEANS].numpy(), broadcast.tensors[WHITENING].numpy())
        pick = middle if request.split == "test" else highest
        histogram = no_distances()
        for part in parts.values():
            embedding = model.run(part).embedding
            if LEFT_OUT in broadcast.tensors:
                left_out = broadcast.tensors[LEFT_OUT].numpy()
                distances = distances_left_out(gaussians, left_out, embedding, part.labels)
            else:
                distances = gaussians.distances(embedding)
            histogram += count_distances(distances, part.people, client.smallest_cell, pick)
        return reply(broadcast, tensors={DISTANCES: torch.from_numpy(histogram)})
    if broadcast.ask == COUNTS:
        answers = {name: model.run(part).probabilities for name, part in parts.items()}
        return reply_blocks(broadcast, client, parts, answers, request)
    raise unknown_request(broadcast)


def answer_nodes(broadcast: Broadcast, request: EvaluateRequest, client: Client, model: Judged) -> Update:
    """The histograms of the nodes of a level, in each view, `(views, nodes of the level, 2, bins)`."""
    shown = views(request, client)
    asked = NodesAsked.of(broadcast, Tree(client.dataset.labels), len(shown))
    names, cell = names_in_views(model_name(broadcast), request), client.smallest_cell
    counts = [
        node_counts(model, parts_in(client, request, view), client, asked, place, cell, names[place])
        for place, view in enumerate(shown)
    ]
    return reply(broadcast, tensors={NODES: as_counts(np.stack(counts))})


def are_first_thresholds(client: Client, model: str, asked: NodesAsked, place: int) -> bool:
    """Whether triage and finer levels have the thresholds that were first named of a model in a view.

    Else the difference of two answers, of whatever levels and subgroups, would count the lesions between.
    """
    ends = np.cumsum([len(nodes) for nodes in Tree(client.dataset.labels).levels])
    named = [asked.triage[place], *np.split(asked.so_far[place], ends)[: asked.level]]
    account = partial(is_first_request, client.releases, client.id, least=client.min_count)
    if all(account(f"{SO_FAR} {at} {model}", str(of.tolist())) for at, of in enumerate(named)):
        return True
    warn_once(
        client.releases,
        f"{client.id}: no lesions are counted at level {asked.level} of the tree of diagnoses: other "
        "thresholds of triage or of finer levels were named of this model before, and the difference would "
        "count the lesions between (privacy.min_count)",
    )
    return False


def parts_in(client: Client, request: EvaluateRequest, view: View) -> dict[str, Examples]:
    """What of the request's pictures may be counted in a view: of every fold by itself."""
    return sendable(client, request, view, in_folds=answers_by_fold(client, request))


def node_counts(
    model: Judged,
    parts: Mapping[str, Examples],
    client: Client,
    asked: NodesAsked,
    place: int,
    cell: int,
    name: str,
) -> NDArray[np.int64]:
    """The histograms of the nodes of a level in one view, `(nodes of the level, 2, bins)`.

    Zeros, where other thresholds were named before of the model and view that has the name.
    """
    labels, (below, urgent_from) = client.dataset.labels, asked.triage[place].tolist()
    tree, malignant = Tree(labels), malignant_classes(labels)
    triage = Thresholds(0, None, below, urgent_from)
    counts = np.zeros((len(tree.levels[asked.level]), 2, SCORE_BINS), dtype=np.int64)
    if not are_first_thresholds(client, name, asked, place):
        return counts
    for part in parts.values():
        probabilities = model.run(part).probabilities
        ruled_out = is_ruled_out(score_bin(malignancy_probability(probabilities, malignant)), triage)
        counts += count_nodes(
            tree, asked.level, probabilities, part.labels, ruled_out, asked.so_far[place], part.people, cell
        )
    return counts


def answer_at_thresholds(
    broadcast: Broadcast, request: EvaluateRequest, client: Client, model: Judged
) -> Update:
    """Counts of a histogram between the thresholds that are named, in each view.

    They are exact where they leave in a sum under masks and are the first that are asked for about the model.
    Else the merged histogram is counted, which tells nothing that it did not tell itself.
    """
    shown = views(request, client)
    what, named = NODES if NODES in broadcast.tensors else MALIGNANCY, model_name(broadcast)
    rows, most, asked_nodes = 1, most_thresholds(len(request.subgroups)), None
    names: list[str] = []
    if what == NODES:
        most, names = STEPS, names_in_views(named, request)
        tree = Tree(client.dataset.labels)
        asked_nodes = NodesAsked.of(broadcast, tree, len(shown))
        rows = len(tree.levels[asked_nodes.level])
    thresholds = read_thresholds(broadcast.tensors.get(what), len(shown) * rows, most)
    level = "" if asked_nodes is None else f" {asked_nodes.level}"
    about = f"{what}{level} {named}"
    asked = f"{request.model_dump_json()} {thresholds.tolist()}"
    exact = (
        client.masked
        and has_each_view_once(request)
        and is_first_request(client.releases, client.id, about, asked, client.min_count)
    )
    cell = 1 if exact else client.smallest_cell
    tensors: dict[str, torch.Tensor] = {}
    for place, view in enumerate(shown):
        parts = parts_in(client, request, view)
        at = thresholds[place * rows : (place + 1) * rows].tolist()
        if asked_nodes is not None:
            histograms = node_counts(model, parts, client, asked_nodes, place, cell, names[place])
        else:
            histograms = np.concatenate(malignancy_counts(model, parts, client, request, cell))[None]
        counts = [CountsAt.of(each, of).between for each, of in zip(histograms, at, strict=True)]
        name = f"{place}/{BETWEEN}" if request.patterns else BETWEEN
        tensors[name] = as_counts(np.concatenate(counts))
    return reply(broadcast, tensors=tensors)


def model_name(broadcast: Broadcast) -> str:
    """What names a model in the account of releases: the digests of all that scores depend on."""
    digest = hashlib.sha256()
    for name in sorted(name for name in broadcast.tensors if name == GRAPH or name.startswith(FOLD)):
        digest.update(name.encode() + b"\0" + broadcast.tensors[name].numpy().tobytes())
    return f"{broadcast.options[ENCODER]} {digest.hexdigest()}"


def answers_by_fold(client: Client, request: EvaluateRequest) -> bool:
    """Whether every fold is answered by itself, by the model without it."""
    return client.crossfit is not None and request.split == "train"


def has_each_view_once(request: EvaluateRequest) -> bool:
    """Whether it asks about all patterns together and each once: a view twice has twice the thresholds."""
    together = request.patterns[0] if request.patterns else ()
    once = (together, *((each,) for each in together)) if request.patterns else ()
    return request.patterns == once and len(set(together)) == len(together) and not request.left_out


def malignancy_counts(
    model: Judged, parts: Mapping[str, Examples], client: Client, request: EvaluateRequest, cell: int
) -> list[NDArray[np.int64]]:
    """The histogram of each subgroup of the request by malignancy, `(1 + kinds, bins)`.

    Args:
        model: what scores them.
        parts: the pictures of each subgroup, or of each fold of one (`dark/3`), that may be counted.
        client: whose they are.
        request: names the subgroups.
        cell: the fewest patients of a run.
    """
    labels = client.dataset.labels
    counts = {
        name: np.zeros((1 + len(kinds_of(labels)), SCORE_BINS), dtype=np.int64) for name in request.subgroups
    }
    for name, part in parts.items():
        own = name if name in counts else name.rpartition("/")[0]
        probabilities = model.run(part).probabilities
        counts[own] += count_malignancies(probabilities, part.labels, kind_of_each(labels), part.people, cell)
    return list(counts.values())


def views(request: EvaluateRequest, client: Client) -> list[View]:
    """What is shown in each answer to a request: that of each set of patterns, then all but each part.

    Of an empty set of patterns, and where none is asked about, they are shown as they are.
    """
    if not request.patterns:
        return [as_they_are]
    case = case_of(client.dataset)
    assert case is not None, "only cases have patterns"
    sets = [[read_pattern(name) for name in names] for names in request.patterns]
    return [
        *(partial(under, case=case, patterns=each) if each else as_they_are for each in sets),
        *(partial(without, case=case, part=part) for part in request.left_out),
    ]


def names_in_views(model: str, request: EvaluateRequest) -> list[str]:
    """What names a model in each view, however the request spells and repeats its patterns."""
    sets = [str(sorted({read_pattern(name).name for name in names})) for names in request.patterns or [()]]
    return [f"{view} {model}" for view in (*sets, *request.left_out)]


def embedding_sums(model: Judged, client: Client, split: Split, view: View = as_they_are) -> ClassSums:
    """A client's class sums of embeddings over its labelled pictures of a split, of every subgroup."""
    examples = view(client.examples(split))
    by_class = {
        label.code: examples.where(examples.labels == k) for k, label in enumerate(client.dataset.labels)
    }
    told = disclosable(client, EMBEDDING_SUMS, by_class)
    pictures = np.concatenate([[-1], *(part.identities[:, 0] for part in told.values())])
    labelled = examples.where((examples.labels >= 0) & np.isin(examples.identities[:, 0], pictures))
    classes = len(client.dataset.labels)
    if not len(labelled):
        return total((), classes, model.head.num_features)
    embedding = model.run(labelled).embedding
    return class_sums(embedding, labelled.labels, classes, client.min_count, labelled.people)
