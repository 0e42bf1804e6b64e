"""The hospitals that the coordinator's operator has disabled, as FLARE keeps them in the server's kit."""

import json
from dataclasses import dataclass
from pathlib import Path

from training.engines.flare.calls import ChannelError

FILE = (
    "disabled_clients.json"  # FLARE's, written whole or not at all; it does not start with one it cannot read
)
REASON = "the coordinator's operator has disabled it (dermfed-node enable lets it in again)"


@dataclass(frozen=True)
class DisabledHospitals:
    """The names that FLARE lets in no more, read anew at every look.

    Attributes:
        kit: the server's kit, which is FLARE's workspace.
    """

    kit: Path

    def names(self) -> frozenset[str]:
        """The names in the certificates that are refused.

        Raises:
            ChannelError: the file is there and cannot be read; then nobody is known to be let in.
        """
        path = self.kit / FILE
        try:
            found = json.loads(path.read_text())["disabled_clients"]
        except FileNotFoundError:
            return frozenset()
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ChannelError(
                f"{path} cannot be read ({error}), so nobody knows who is disabled; restore it"
            ) from error
        if not isinstance(found, list):
            raise ChannelError(f"{path} holds no list of names, so nobody knows who is disabled; restore it")
        return frozenset(f"{name}" for name in found)

    def refuse(self, name: str) -> None:
        """Refuse a hospital that is disabled.

        Raises:
            ChannelError: it is, or nobody knows.
        """
        if name in self.names():
            raise ChannelError(REASON)
