"""The pictures with which a hospital's node is in a run: written down once it has told of them.

A run goes on with what it began with. Where the coordinator takes up a hospital whose data changed, pictures
may have been removed, and nothing else: only the node can see that. It is a check against mistakes, and
proves nothing to anybody.
"""

from pathlib import Path

from clients.data.errors import ClientDataError
from clients.data.wording import listing
from training.atomic_files import write_bytes
from training.data.dataset import Dataset
from training.data.picture_list import PictureList
from training.data.told_before import ToldBefore
from training.errors import tell

TOLD, HELD = "told.npy", "held.npy"  # of which numbers were told, and what was there last
LOSSES = "losses.npy"  # what losses were of that were told last, once pictures were removed


class RunPictures:
    """Keeps the list of pictures that numbers were told of in one run.

    Args:
        folder: of the run, for this alone; made when something is written.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def admit(self, now: PictureList, *, changed: bool) -> PictureList:
        """The pictures of which numbers were told, where what is there now may take part.

        Args:
            now: what is there.
            changed: whether the coordinator knows that it is other data than the run began with here.

        Raises:
            ClientDataError: something else than a removal came in between; or it is not known.
        """
        held = self._read(HELD)
        if held is None:
            if changed:
                raise tell(
                    ClientDataError(
                        "this hospital's data changed, and there is no list here of the pictures that it "
                        "began the run with: a version of dermfed without such lists began it, or "
                        "private/runs was removed. Restore manifest and pictures, or dismiss the hospital "
                        "(--without), or start the run anew"
                    )
                )
            return now
        wrong = list(now.beyond(held))
        if wrong:
            raise ClientDataError(
                f"{len(wrong)} pictures are not as this run began with them:\n{listing(wrong)}\n"
                "From a run under way pictures may only be removed. `dermfed-data withdraw` writes such a "
                "manifest; to go on with other pictures, start a run of its own"
            )
        told = self._read(TOLD)
        return held if told is None else told

    def removed(self, now: PictureList) -> bool:
        """Whether pictures are gone that were there last."""
        held = self._read(HELD)
        return held is not None and len(now) < len(held)

    def hold(self, now: PictureList) -> None:
        """Write down that no more is there than this; what is gone does not come back."""
        self._write(HELD, now)

    def told_before(self, told: PictureList, now: PictureList, data: Dataset, least: int) -> ToldBefore:
        """What of `told` is left, with the pictures that the losses told last are of.

        Args:
            told: the pictures of which numbers were told.
            now: those that are there.
            data: whose subgroups and classes the job's are.
            least: the fewest patients by whom losses may differ.
        """
        names = tuple(data.subgroups)
        before = ToldBefore(told, now, names, len(data.labels), self._read(LOSSES) or told)
        self._write(LOSSES, before.losses_told(least))
        return before

    @property
    def settled(self) -> bool:
        """Whether it is written down."""
        return (self._folder / HELD).exists()

    def settle(self, now: PictureList) -> None:
        """Write down what is there, before the first number of it leaves."""
        self._write(TOLD, now)
        self._write(HELD, now)

    def _read(self, name: str) -> PictureList | None:
        path = self._folder / name
        try:
            return PictureList.of_bytes(path.read_bytes()) if path.exists() else None
        except (OSError, ValueError) as error:
            raise ClientDataError(
                f"{path}, the list of the pictures of this run, cannot be read: {error}. Restore it, or "
                "start the run anew"
            ) from error

    def _write(self, name: str, pictures: PictureList) -> None:
        write_bytes(self._folder / name, pictures.to_bytes())
