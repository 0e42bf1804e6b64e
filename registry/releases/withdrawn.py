"""Withdrawn versions are refused, and versions that share the model file of one are told.

The bundle decides: withdrawn is a version, by the digest of its bundle. The same `model.onnx` under another
manifest may be the mend, where thresholds or a calibration were at fault, or the same harm again; nobody but
a person can tell. So it is never promoted in silence: that takes a reason, which history keeps.
"""

from collections.abc import Sequence

from sqlalchemy import Connection

from registry.database.queries import model_digests, withdrawals
from registry.errors import VersionWithdrawn
from registry.records import Version, Withdrawal


def refuse_withdrawn(connection: Connection, versions: Sequence[Version]) -> None:
    """Refuses versions of which any was withdrawn.

    Raises:
        VersionWithdrawn: one was; the text says why.
    """
    found = {(one.model, one.digest): one for one in withdrawals(connection)} if versions else {}
    for version in versions:
        if (withdrawal := found.get((version.model, version.digest))) is not None:
            raise withdrawn_error(withdrawal)


def withdrawn_error(withdrawal: Withdrawal) -> VersionWithdrawn:
    """The error for a version that was withdrawn."""
    return VersionWithdrawn(
        f"version {withdrawal.number} of {withdrawal.model} ({withdrawal.digest}) is {withdrawal}. There is "
        "no way back: add another version"
    )


def shared_files(connection: Connection, versions: Sequence[Version]) -> tuple[str, ...]:
    """What to know of these versions of one model: which have the `model.onnx` of a withdrawn one."""
    digests = model_digests(connection, versions)
    withdrawn = withdrawals(connection)
    return tuple(
        f"version {version.number} of {version.model} has the same model.onnx as version {one.number} of "
        f"{one.model}, which is {one}"
        for version in versions
        for one in withdrawn
        if one.model_digest == digests.get(version.number)
        and (one.model, one.digest) != (version.model, version.digest)
    )
