"""A client's door: what arrives is opened, and what leaves is what the job allows to leave.

Every answer passes here, whatever the transport. In this order: losses of few pictures are left out; an
update is clipped and noised, brought into the form in which it travels, or withheld for a sum under masks.
Where the job asks for such sums, an answer with tensors of this client alone that is none of those is refused
by the client itself.
"""

from dataclasses import replace
from typing import TYPE_CHECKING

from training.canary import CANARY, rehearse
from training.census import CENSUS, take_census
from training.client import Client
from training.compression.client_half import opened, packed
from training.data import SERVER
from training.errors import MessageError
from training.fit import weights_in
from training.messages import Broadcast, Update
from training.objectives.dp_sgd import STEPS
from training.privacy.config import PrivacyConfig
from training.privacy.questions import QUESTIONS

if TYPE_CHECKING:
    from training.job import Job

FIT, COLLECT = "fit", "collect"  # the questions whose answers are weights


def answer_at_door(job: "Job", broadcast: Broadcast, client: Client) -> Update:
    """A client's answer to any question, as it may leave.

    Raises:
        MessageError: when the job does not allow it to leave.
    """
    privacy = job.privacy
    if broadcast.ask == CENSUS:
        return take_census(broadcast, client)
    if broadcast.ask in QUESTIONS:
        return answer_masks(broadcast, client, privacy)
    stage, received = job.stage(broadcast.stage), opened(broadcast)
    if broadcast.ask == CANARY:
        return rehearse(received, client, stage.answer, FIT)  # its answer is empty
    update = without_losses_of_few(stage.answer(received, client), client)
    if broadcast.ask == FIT:
        sent = weights_in(received)
        if privacy.client_level is not None:
            from training.privacy.client_level import privatise

            update = privatise(update, sent, client, privacy)
        if STEPS in update.scalars:
            from training.privacy.ledger import note_steps

            update = note_steps(update, client)
        update = packed(update, sent, client, job.compression)
    if broadcast.ask == COLLECT and privacy.client_level is not None:
        raise MessageError(
            f"{client.id} does not upload what stayed with it: it would leave without noise, and the job has "
            "privacy.client_level; set sync.average_at_end: false"
        )
    if privacy.secure_aggregation is not None:
        counts = stage.summed if privacy.secure_aggregation.counts else frozenset()
        return hidden(update, client, counts, open_counts=stage.summed - counts)
    return update


def without_losses_of_few(update: Update, client: Client) -> Update:
    """The answer without the mean loss of a subgroup of fewer pictures than the job's minimum.

    Of one picture it would be what the model answers for it. Rules that weigh by losses take such a subgroup
    as one of which no picture was drawn.
    """
    least = max(client.min_count, 1)
    told = {name: loss for name, loss in update.losses.items() if update.num_examples.get(name, 0) >= least}
    return replace(update, losses=told)


def hidden(update: Update, client: Client, counts: frozenset[str], open_counts: frozenset[str]) -> Update:
    """An answer under masks: withheld, or as it is where it tells nothing of this client alone."""
    if update.ask in {FIT, COLLECT} | counts:
        from training.privacy.client_half import withhold

        return withhold(update, client)
    if update.tensors and update.ask not in open_counts and client.id != SERVER:
        raise MessageError(
            f"{client.id} does not answer `{update.ask}` of {update.stage}: it would send tensors of one "
            "client in the clear, and the job has privacy.secure_aggregation; leave that out or what "
            "asks for them"
        )
    return update


def answer_masks(broadcast: Broadcast, client: Client, privacy: PrivacyConfig) -> Update:
    """The answer to a question of a secure sum.

    Raises:
        MessageError: when the job has none.
    """
    if privacy.secure_aggregation is None:
        raise MessageError(
            f"{client.id} was asked `{broadcast.ask}`, and this job has no privacy.secure_aggregation; do "
            "the coordinator and this site run the same job?"
        )
    from training.privacy.client_half import answer

    return answer(broadcast, client, privacy.secure_aggregation)
