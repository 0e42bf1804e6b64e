"""What a node does where patients withdrew from a run that it takes part in."""

from collections.abc import Callable
from dataclasses import dataclass

from clients.node.run_pictures import RunPictures
from clients.store import ClientStore
from training.algorithms.features import KEPT
from training.algorithms.release_store import ReleaseStore
from training.data.dataset import Dataset
from training.data.picture_list import PictureList
from training.data.told_before import ToldBefore
from training.errors import JobError, tell
from training.federation.client.withdrawn import account_for_told
from training.jobs.job import Job


@dataclass(frozen=True)
class Removal:
    """Takes up a run at a node whose pictures may be fewer than they were.

    Attributes:
        node: its name.
        job: of the run.
        pictures: the lists of what there was.
        store: what the node keeps between rounds.
        releases: the account of what it told.
        say: takes one line for whoever watches the node.
    """

    node: str
    job: Job
    pictures: RunPictures
    store: ClientStore
    releases: ReleaseStore
    say: Callable[[str], None]

    def take_up(self, now: PictureList, data: Dataset, *, changed: bool) -> ToldBefore | None:
        """What was told of this run's pictures before some were removed; None where all are there.

        What an encoder made of the pictures is removed with them; of those that stay it is made anew.

        Args:
            now: the pictures that are there.
            data: the same, with the run's classes and subgroups.
            changed: whether the coordinator knows that it is other data than the run began with here.

        Raises:
            ClientDataError: something else has changed.
            JobError: the job tells numbers of pictures by another way.
        """
        told = self.pictures.admit(now, changed=changed)
        if self.pictures.removed(now):
            self.store.forget(self.node, KEPT, after=-1)
            self.pictures.hold(now)
        if len(told) == len(now):
            return None
        if self.job.privacy.noisy_counts is not None:
            raise tell(
                JobError(
                    f"patients of {self.node} withdrew, and the job has privacy.counts.epsilon: its counts "
                    "tell without noise how many patients of each class there are. Dismiss the hospital "
                    "(--without), or start the run anew"
                )
            )
        least = self.job.privacy.min_count
        self.say(
            f"job {self.job.name}: {len(told) - len(now)} of the {len(told)} pictures that this run began "
            "with are gone. Numbers of pictures are told as they were; counts of answers of their splits and "
            f"subgroups leave once {least} patients are gone; what was learned from them stays in the weights"
        )
        before = self.pictures.told_before(told, now, data, least)
        account_for_told(self.releases, self.node, before, least)
        return before
