"""Personal models: the epochs kept, their comparison with the global model, and models of clients.

Candidate epochs stay on disk until selection has chosen. The request `compare` asks what changes from the
global to a personal model on the same pictures: the personal model is sent as what differs from the global
one, a hospital answers each of its labelled validation pictures with both, and sends how many the one gets
right that the other gets wrong, by class; the answers stay there.

A hospital's own model trains on its own pictures of all subgroups and answers for them alone. It is chosen by
all its labelled validation pictures together, counted under the client's own name.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

import torch

from registry.bundle.errors import CountsError
from registry.bundle.labels import malignant_classes
from registry.bundle.lesion_counts import PairedCounts
from training.algorithms.client import Client
from training.data.cells import count_people
from training.data.dataset import Examples
from training.errors import JobError, MessageError
from training.files import write_text
from training.jobs.stages.base import StageContext
from training.jobs.stages.final_test import final_request
from training.messages import Broadcast, Tensors, Update, named, prefixed, reply
from training.models.encoder_files import said_of
from training.rounds.census import Census
from training.rounds.client.disclosure import sendable
from training.rounds.client.evaluate import predict, reply_blocks
from training.rounds.client.fit import FEWEST_IN_BATCH
from training.rounds.client.ledger import ANSWERS, disclosable
from training.rounds.requests import COMPARE, TEST, Blocks, EvaluateRequest, unpack_blocks
from training.rounds.server.ask import Traffic, ask_all, ask_sums
from training.rounds.server.plan import Track
from training.tensor_file import read_tensors, write_tensors


def client_tracks(context: StageContext) -> tuple[Track, ...]:
    """One track per hospital that can train a model and count the validation pictures to choose it by.

    Raises:
        JobError: when there is none.
    """
    owners = require_owners(context.census, context.job.privacy.min_count)
    return tuple(Track(name, (name,), (name,), context.all_subgroups) for name in owners)


def require_owners(census: Census, least: int) -> list[str]:
    """The hospitals that can have a model of their own.

    Args:
        census: the pictures that each client holds.
        least: the fewest patients whose metrics are disclosed.

    Raises:
        JobError: when no hospital can.
    """
    places = census.all_subgroups
    able = [
        name
        for name in census.hospitals("train", places)
        if census.held(name, "train", places) >= FEWEST_IN_BATCH
        and census.held(name, "validation", places) >= max(least, 1)
    ]
    if not able:
        raise JobError(
            f"personalize: no hospital has {FEWEST_IN_BATCH} labelled training pictures and {least} labelled "
            "validation pictures (privacy.min_count) for a model of its own; raise data.split.validation, "
            "lower privacy.min_count, or personalize per subgroup"
        )
    return able


def without_own(context: StageContext, owners: Iterable[str]) -> list[str]:
    """The hospitals that keep the global model, having too few pictures for one of their own."""
    taken, places = set(owners), context.all_subgroups
    hospitals = {
        *context.census.hospitals("train", places),
        *context.census.hospitals("validation", places),
        *context.census.hospitals("test", places),
    }
    return [name for name in context.census.counts if name in hospitals and name not in taken]


def evaluate_together(broadcast: Broadcast, client: Client) -> Update:
    """Counts over the client's labelled pictures together, as one block of the client's name."""
    request = EvaluateRequest.model_validate(broadcast.options)
    parts = disclosable_together(client, request)
    probabilities = {name: predict(client.local_model, part) for name, part in parts.items()}
    return reply_blocks(broadcast, client, parts, probabilities, request)


def disclosable_together(client: Client, request: EvaluateRequest) -> dict[str, Examples]:
    """The client's labelled pictures of which counts may leave as one set, under its own name.

    Nothing is counted below the job's minimum of patients. Blocks by subgroup of the same model may have been
    sent before, so what this one counts beyond them must not be of a few patients either: subgroups that are
    too small to be sent are left out, unless together they are not.
    """
    examples = client.examples(request.split)
    labelled = examples.where(examples.labels >= 0)
    places = labelled.subgroups % (len(client.subgroups) + 1)  # undeclared last
    sizes = count_people(places, labelled.people, len(client.subgroups) + 1)
    small = (sizes < client.min_count)[places]
    if labelled.where(small).num_people < client.min_count:
        labelled = labelled.where(~small)
    return disclosable(client, ANSWERS, {client.id: labelled})


def figures_of_own_models(
    context: StageContext, models: Mapping[str, Tensors], traffic: Traffic
) -> dict[str, Blocks]:
    """Counts on each hospital's test pictures by its own model, by client and subgroup.

    Raises:
        QuorumError: when a hospital that holds test pictures does not answer.
    """
    request = final_request(context, context.all_subgroups)
    broadcasts = [
        Broadcast(client, context.key, 0, TEST, client, models[client], request)
        for client in context.census.hospitals("test", context.all_subgroups)
    ]
    updates = ask_all(context.engine, broadcasts, traffic, quorum=context.quorum) if broadcasts else []
    return {update.client: unpack_blocks(update) for update in updates}


def keep_personal_models(
    context: StageContext, models: Mapping[str, Tensors], epochs: Mapping[str, int]
) -> None:
    """Write each hospital's model to `personal/<client>.safetensors` in the stage's folder.

    Raises:
        CheckpointError: when the disk does not take it.
    """
    for client, weights in models.items():
        said = {"client": client, "epoch": epochs.get(client, 0), **said_of(context.shown)}
        write_tensors(personal_file(context.folder, client), context.digest, said, weights)


def personal_file(folder: Path, client: str) -> Path:
    """The path of one client's model in a stage's folder."""
    return folder / "personal" / f"{quote(client, safe=' ()+,')}.safetensors"


BEFORE, AFTER, PAIRED = "before/", "after/", "paired"


def ask_compared(
    context: StageContext,
    name: str,
    judges: Sequence[str],
    request: EvaluateRequest,
    pairs: Sequence[tuple[Tensors, Tensors]],
    traffic: Traffic,
) -> PairedCounts:
    """The paired counts of the hospitals that judge a personal model, in a sum under masks where counts are.

    Args:
        context: of the stage.
        name: of the personal model.
        judges: the hospitals.
        request: which of their pictures.
        pairs: the model that may be replaced and the one that may take its place; of training pictures those
            without each fold, in order.
        traffic: what it costs is added to it.

    Raises:
        QuorumError: when one of them does not answer.
        MessageError: when an answer is no paired counts.
    """
    tensors: dict[str, torch.Tensor] = {}
    for fold, (before, after) in enumerate(pairs):
        differs = {key: tensor for key, tensor in after.items() if not torch.equal(tensor, before[key])}
        tensors |= {**prefixed(before, f"{fold}/{BEFORE}"), **prefixed(differs, f"{fold}/{AFTER}")}
    options = request.model_dump()
    broadcasts = [Broadcast(client, context.key, 0, COMPARE, name, tensors, options) for client in judges]
    masks = context.job.privacy.masked_counts
    updates = (
        ask_all(context.engine, broadcasts, traffic)
        if masks is None
        else ask_sums(context.engine, broadcasts, traffic, masks)
    )
    classes = len(context.labels)
    return sum((read_paired(update, classes) for update in updates), PairedCounts.zeros(classes))


def read_paired(update: Update, classes: int) -> PairedCounts:
    """The paired counts of one answer.

    Raises:
        MessageError: there are none, or they do not add up.
    """
    if PAIRED not in update.tensors:
        raise MessageError(f"{update.client} was asked to compare two models and sent no `{PAIRED}`")
    try:
        return PairedCounts.from_array(update.tensors[PAIRED].numpy(), classes)
    except CountsError as error:
        raise MessageError(f"{update.client} sent counts that do not add up: {error}") from error


def answer_compare(
    broadcast: Broadcast, client: Client, *, together: bool = False, in_folds: bool = False
) -> Update:
    """The client's part; zeros where nothing may be disclosed.

    Args:
        broadcast: carries both models.
        client: whose pictures.
        together: whether to treat all its subgroups as one, as for a model of its own.
        in_folds: whether it is about training pictures, each answered by models without its fold.

    Raises:
        MessageError: when the job adds noise to counts, which these have not, or of other pictures.
    """
    request = EvaluateRequest.model_validate(broadcast.options)
    if client.noisy:
        raise MessageError(
            f"{client.id} compares no models: its counts get noise (privacy.counts), and these would not"
        )
    if in_folds and (request.split != "train" or client.crossfit is None):
        raise MessageError(
            f"{client.id} compares heads without a fold on training pictures of a job that has folds "
            f"(data.crossfit); it was asked about {request.split}"
        )
    labels = client.dataset.labels
    malignant, counts = malignant_classes(labels), PairedCounts.zeros(len(labels))
    parts = (
        disclosable_together(client, request) if together else sendable(client, request, in_folds=in_folds)
    )
    for name, part in parts.items():
        fold = name.rpartition("/")[2] if in_folds else "0"
        before = named(broadcast.tensors, f"{fold}/{BEFORE}")
        answers = []
        for weights in (before, {**before, **named(broadcast.tensors, f"{fold}/{AFTER}")}):
            client.local_model.load(weights)
            answers.append(predict(client.local_model, part).argmax(axis=1))
        counts += PairedCounts.count(part.labels, answers[0], answers[1], part.lesions, malignant)
    return reply(broadcast, tensors={PAIRED: torch.from_numpy(counts.to_array().astype("int32"))})


class Candidates:
    """Validation accuracy of every epoch, and weights of the first epoch of each distinct accuracy.

    Personal models go by the names of their owners: subgroups, or clients.

    Among epochs of equal accuracy selection takes the earliest, so no other weights can be asked for.
    Writing an epoch again, as a resumed run does, changes nothing.

    Args:
        folder: the stage's own.
        job: the job's digest.
    """

    def __init__(self, folder: Path, job: str) -> None:
        self._folder = folder
        self._job = job
        self._index = folder / "epochs.json"
        # owner -> epoch -> validation accuracy, and owner -> pictures
        self.accuracies: dict[str, dict[int, float]] = {}
        self.pictures: dict[str, int] = {}
        if self._index.exists():
            stored = json.loads(self._index.read_text())
            self.pictures = stored["pictures"]
            self.accuracies = {
                name: {int(epoch): value for epoch, value in by_epoch.items()}
                for name, by_epoch in stored["accuracies"].items()
            }

    def keep(
        self, epoch: int, accuracies: Mapping[str, tuple[float, int]], weights: Mapping[str, Tensors]
    ) -> None:
        """Keep one epoch of every personal model.

        Args:
            epoch: which; 0 is the global model, whose weights are elsewhere.
            accuracies: validation accuracy and pictures by owner.
            weights: of the epoch's model by owner.

        Raises:
            CheckpointError: when the disk does not take it.
        """
        for name, (value, n) in accuracies.items():
            by_epoch = self.accuracies.setdefault(name, {})
            earlier = {other for at, other in by_epoch.items() if at < epoch}
            if epoch > 0 and value not in earlier:
                write_tensors(self._path(name, epoch), self._job, {}, weights[name])
            by_epoch[epoch] = value
            self.pictures[name] = n
        write_text(self._index, json.dumps({"accuracies": self.accuracies, "pictures": self.pictures}))

    def weights(self, owner: str, epoch: int) -> Tensors:
        """The weights of one kept epoch."""
        return read_tensors(self._path(owner, epoch), self._job)[1]

    def _path(self, owner: str, epoch: int) -> Path:
        place = list(self.accuracies).index(owner)
        return self._folder / f"candidate-{place}-{epoch:06d}.safetensors"


def candidate_files(folder: Path) -> list[Path]:
    """The weights of all candidates in a stage's folder."""
    return sorted(folder.glob("candidate-*.safetensors"))
