"""The client app: answers a client's requests, and filters each answer before it leaves.

Every answer passes the same filters, whatever the transport. In this order: counts get noise, where the job
asks for it, and any other answer then finds the pictures that judge closed; losses of few pictures are left
out; an update is clipped and noised,
compressed, or withheld for a sum under masks. Where the job asks for such sums, an answer with tensors of
this client alone that is none of those is refused by the client itself.
"""

from collections.abc import Callable
from dataclasses import replace

from training.algorithms.client import Client, FeatureMemory, MemoryReleases, ReleaseStore, StateStore
from training.algorithms.local_model import LocalModel
from training.algorithms.objectives.dp_sgd import STEPS
from training.data.dataset import SERVER, Dataset
from training.errors import MessageError, TrainingError, public
from training.jobs.job import Job
from training.jobs.noise_plan import NoisePlan, allowed, answer_with_noise, gets_noise
from training.jobs.stages.base import Stage
from training.messages import Answer, Broadcast, Failure, Update
from training.models import initial_model
from training.privacy.compression import opened, packed
from training.privacy.secagg.keys import Identity
from training.privacy.secagg.messages import REQUESTS, topic_of
from training.privacy.settings import PrivacyConfig
from training.progress import Watch, unwatched
from training.rounds.census import CENSUS, take_census
from training.rounds.client.fit import weights_in
from training.rounds.requests import CANARY, COLLECT, FIT, GRADIENT, JUDGE, MOMENTS, SPREAD, answer_canary


def answer_privately(
    job: Job, broadcast: Broadcast, client: Client, identity: Identity | None = None
) -> Update:
    """A client's answer to any request, filtered as the job's privacy and compression ask.

    Raises:
        MessageError: when the job does not allow it to leave.
    """
    privacy = job.privacy
    if broadcast.ask == CENSUS:
        return take_census(broadcast, client)
    if broadcast.ask in REQUESTS:
        return answer_masks(broadcast, client, privacy, identity)
    stage, received = job.stage(broadcast.stage), opened(broadcast)
    if broadcast.ask == CANARY:
        return answer_canary(received, client, stage.answer, FIT)  # its answer is empty
    client = replace(client, masked=broadcast.ask in masked_requests(privacy, stage))
    if client.noisy:
        update = answer_with_noise(NoisePlan(privacy, job.stages), stage, received, client)
    else:
        update = without_losses_of_few(stage.answer(received, client), client)
    if broadcast.ask == FIT:
        sent = weights_in(received)
        if privacy.client_level is not None:
            from training.privacy.noisy_updates import privatise

            update = privatise(update, sent, client, privacy)
        if STEPS in update.scalars:
            from training.privacy.noisy_updates import note_steps

            update = note_steps(update, client)
        update = packed(update, sent, client, job.compression)
    if broadcast.ask == COLLECT and privacy.client_level is not None:
        raise public(
            MessageError(
                f"{client.id} does not upload what stayed with it: it would leave without noise, and the job "
                "has privacy.client_level; set sync.average_at_end: false"
            )
        )
    if client.masked:
        from training.privacy.secagg.client import withhold

        return withhold(update, client, topic_of(broadcast), identity)
    refuse_open(update, client, privacy, stage)
    return update


def without_losses_of_few(update: Update, client: Client) -> Update:
    """The answer without the mean loss of a subgroup of fewer patients than the job's minimum.

    Of one picture it would be what the model answers for it. Rules that weigh by losses take such a subgroup
    as one of which no picture was drawn.
    """
    held = client.by_subgroup("train") if update.losses else {}
    few = {name for name, part in held.items() if part.num_people < client.min_count}
    kept_losses = {name: loss for name, loss in update.losses.items() if name not in few}
    return replace(update, losses=kept_losses)


def masked_requests(privacy: PrivacyConfig, stage: Stage) -> frozenset[str]:
    """The requests of a stage of whose answers only sums under masks leave: for weights, and for counts.

    Gradients of a head and sums of features are both: sums like counts, from which weights follow.
    """
    weights = (
        frozenset({FIT, COLLECT, MOMENTS, SPREAD, GRADIENT})
        if privacy.secure_aggregation is not None
        else frozenset()
    )
    return weights | (stage.summed if privacy.masked_counts is not None else frozenset())


def refuse_open(update: Update, client: Client, privacy: PrivacyConfig, stage: Stage) -> None:
    """Refuse to send in the clear what the job has under masks; the coordinator's own client may.

    Raises:
        MessageError: naming the request.
    """
    if client.id == SERVER or not update.tensors:
        return
    if privacy.secure_aggregation is not None and update.ask not in stage.summed:
        raise public(
            MessageError(
                f"{client.id} does not answer `{update.ask}` of {update.stage}: it would send tensors of one "
                "client in the clear, and the job has privacy.secure_aggregation; leave that out or what "
                "asks for them"
            )
        )
    if privacy.masked_counts is not None and update.ask == JUDGE:
        raise public(
            MessageError(
                f"{client.id} does not answer `{update.ask}` of {update.stage}: it would send counts of one "
                "client in the clear, and this job has them under masks; that request is for the "
                "coordinator's own client"
            )
        )


def answer_masks(
    broadcast: Broadcast, client: Client, privacy: PrivacyConfig, identity: Identity | None
) -> Update:
    """The answer to a request of a secure sum.

    Raises:
        MessageError: when the job has none.
    """
    config = privacy.secure_aggregation or privacy.masked_counts
    if config is None:
        raise public(
            MessageError(
                f"{client.id} was asked `{broadcast.ask}`, and this job has no privacy.secure_aggregation "
                "and no privacy.counts.masks; do the coordinator and this site run the same job?"
            )
        )
    from training.privacy.secagg.client import answer

    return answer(broadcast, client, config, identity)


class ClientApp:
    """Plays any of a job's clients, one request at a time, on one local model.

    Args:
        job: what to do, the same at the coordinator and at every site.
        dataset: the pictures of the clients played here.
        store: where those clients keep what is not sent.
        public_text: what is reported of an error; all of its text, where that is read at this site.
        releases: the record of the sums they sent so far; by default it ends with the process.
        identity: with what this site signs its part in sums; None where all clients are in one process.
        watch: receives the progress of a long request.
    """

    def __init__(
        self,
        job: Job,
        dataset: Dataset,
        store: StateStore,
        public_text: Callable[[TrainingError], str] = str,
        releases: ReleaseStore | None = None,
        identity: Identity | None = None,
        watch: Watch = unwatched,
    ) -> None:
        self._job = job
        self._watch = watch
        self._dataset = dataset
        self._store = store
        self._public_text = public_text
        self._releases = MemoryReleases() if releases is None else releases
        self._identity = identity
        self._features = FeatureMemory()
        model = initial_model(job.model, job.seed, job.data.image_size, len(dataset.labels), job.data.case)
        self._local_model = LocalModel(model, job.engine.device, job.engine.precision)

    def answer(self, broadcast: Broadcast) -> Answer:
        """Answer one request; what cannot be done is reported, not raised."""
        client = self._client(broadcast)
        try:
            return answer_privately(self._job, broadcast, client, self._identity)
        except TrainingError as error:
            return Failure(broadcast.client, broadcast.track, self._public_text(error))

    def _client(self, broadcast: Broadcast) -> Client:
        return Client(
            broadcast.client,
            self._job.seed,
            self._job.privacy.min_count,
            allowed(self._dataset, broadcast, self._job.privacy),
            self._store,
            self._local_model,
            releases=self._releases,
            noisy=gets_noise(broadcast, self._job.privacy),
            features=self._features,
            watch=self._watch,
            crossfit=self._job.data.crossfit,
        )
