"""Personal models per client: who may have one, how it is evaluated, where it is kept.

A hospital's model trains on its own pictures of all subgroups and answers for them alone. It is chosen for
by all its labelled validation pictures together, counted under the client's own name.
"""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from training.algorithms.client import Client
from training.data.cells import count_people
from training.data.dataset import Examples
from training.errors import JobError
from training.jobs.stages.base import StageContext
from training.jobs.stages.final_test import final_request
from training.messages.message import Broadcast, Tensors, Update
from training.messages.tensor_file import write_tensors
from training.models.encoders.files import said_of
from training.rounds.census import Census
from training.rounds.client.evaluate import predict, reply_blocks
from training.rounds.client.fit import FEWEST_IN_BATCH
from training.rounds.client.ledger import ANSWERS, disclosable
from training.rounds.requests import TEST, Blocks, EvaluateRequest, unpack_blocks
from training.rounds.server.ask import Traffic, ask_all
from training.rounds.server.plan import Track


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
) -> Sequence[Path]:
    """Write each hospital's model to `personal/<client>.safetensors` in the stage's folder.

    Raises:
        CheckpointError: when the disk does not take it.
    """
    paths = []
    for client, weights in models.items():
        path = personal_file(context.folder, client)
        write_tensors(
            path,
            context.digest,
            {"client": client, "epoch": epochs.get(client, 0), **said_of(context.shown)},
            weights,
        )
        paths.append(path)
    return paths


def personal_file(folder: Path, client: str) -> Path:
    """The path of one client's model in a stage's folder."""
    return folder / "personal" / f"{quote(client, safe=' ()+,')}.safetensors"
