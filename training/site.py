"""A site: whoever plays clients and answers the coordinator's questions."""

from collections.abc import Callable

from training.client import Client
from training.data import Dataset
from training.errors import TrainingError
from training.job import Job
from training.messages import Answer, Broadcast, Failure
from training.models import initial_model
from training.privacy.door import answer_at_door
from training.state import StateStore
from training.workbench import Workbench


class Site:
    """Plays any of a job's clients, one question at a time, on one workbench.

    Args:
        job: what to do, the same at the coordinator and at every site.
        dataset: the pictures of the clients played here.
        store: where those clients keep what does not travel.
        tell: what is reported of an error; all of it, where that is read at this site.
    """

    def __init__(
        self, job: Job, dataset: Dataset, store: StateStore, tell: Callable[[TrainingError], str] = str
    ) -> None:
        self._job = job
        self._dataset = dataset
        self._store = store
        self._tell = tell
        model = initial_model(job, len(dataset.labels))
        self._bench = Workbench(model, job.engine.device, job.engine.precision)

    def answer(self, broadcast: Broadcast) -> Answer:
        """Answer one question; what cannot be done is reported, not raised."""
        client = Client(
            broadcast.client,
            self._job.seed,
            self._job.privacy.min_count,
            self._dataset,
            self._store,
            self._bench,
        )
        try:
            return answer_at_door(self._job, broadcast, client)
        except TrainingError as error:
            return Failure(broadcast.client, broadcast.track, self._tell(error))
