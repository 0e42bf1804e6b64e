"""The weights that this node was sent last, in a file: what of them comes again is named and not sent.

The file holds the tensors of one question, whole. It is empty when the node's process begins and gone when
it ends, lies in the folder of one run, and is never read for another. A coordinator names tensors by digest;
each is computed anew from the file before it is used, so that a file that was cut off or changed is one that
was lost.
"""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from safetensors import SafetensorError

from training.engines.nvflare.held_weights import worth_holding
from training.engines.nvflare.payload import Payload, read_payload
from training.errors import CheckpointError, MessageError, tell
from training.messages.message import Tensors
from training.messages.spool import SUFFIX
from training.messages.tensor_digest import tensor_digest
from training.messages.tensor_file import map_tensors, pack_tensors, save_tensors

FILE, NEXT = f"last{SUFFIX}", f"next{SUFFIX}"


class LostWeightsError(MessageError):
    """Tensors were named that are not here; the coordinator sends them."""


class KeptWeights:
    """The tensors of the last question, in one file.

    Args:
        folder: in the run's; what is in it is removed.
    """

    def __init__(self, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True, exist_ok=True)  # a process that is about to end may write there still
        self._folder = folder

    @property
    def there(self) -> bool:
        """Whether any are kept."""
        return (self._folder / FILE).exists()

    def whole(self, named: Mapping[str, str], payload: Payload) -> Payload:
        """The payload of a question with all its tensors, which are kept in place of those before.

        Args:
            named: digests of the tensors that did not travel, by name.
            payload: those that did.

        Raises:
            LostWeightsError: a tensor that is named is not here.
            MessageError: what arrived is no tensors, or some of it is named as well.
        """
        arrived = read_payload(payload)
        if not named:
            if worth_holding(arrived):
                self._keep_arrived(payload)
            return payload
        held = self._held(named)
        twice = sorted(arrived.keys() & named.keys())
        if twice:
            raise tell(MessageError(f"{', '.join(twice[:3])} came, and was named as well"))
        if not arrived and held.keys() == named.keys():
            return self._folder / FILE
        return self._keep({**{name: held[name] for name in named}, **dict(arrived.items())})  # opened once

    def remove(self) -> bool:
        """Keep nothing any more; returns whether anything was kept."""
        there = self.there
        (self._folder / FILE).unlink(missing_ok=True)
        return there

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    def _held(self, named: Mapping[str, str]) -> Tensors:
        try:
            held = map_tensors(self._folder / FILE)
        except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
            raise tell(LostWeightsError("the weights that were named are not here")) from error
        wrong = [
            name for name, digest in named.items() if name not in held or tensor_digest(held[name]) != digest
        ]
        if wrong:
            raise tell(LostWeightsError("other weights than were named are here"))
        return held

    def _keep_arrived(self, payload: Payload) -> None:
        """Keep a payload as it came; where the disk does not take it, nothing."""
        following = self._folder / NEXT
        following.unlink(missing_ok=True)
        try:
            if isinstance(payload, Path):
                os.link(payload, following)
            else:
                following.write_bytes(payload)
            following.replace(self._folder / FILE)
        except OSError:
            following.unlink(missing_ok=True)
            self.remove()

    def _keep(self, tensors: Tensors) -> Payload:
        following = self._folder / NEXT
        try:
            save_tensors(tensors, following)
            following.replace(self._folder / FILE)
        except (OSError, SafetensorError, CheckpointError):
            following.unlink(missing_ok=True)
            packed = pack_tensors(tensors)
            self.remove()
            return packed
        return self._folder / FILE
