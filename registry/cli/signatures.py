"""What the commands print of signatures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from registry.records import moment
from registry.rendering.table import columns, lines_of

if TYPE_CHECKING:
    from registry.signing.rows import Signature


def signature_table(signatures: Sequence["Signature"]) -> str:
    """Signatures, one on each line."""
    rows = [[one.model, str(one.number), moment(one.created), one.identity, one.object] for one in signatures]
    return columns(("model", "version", "signed", "by", "object"), rows)


def signed_by(signatures: Sequence["Signature"]) -> str:
    """Who says to have signed a version, as lines of its page; only `verify --trust` proves it."""
    if not signatures:
        return "  signed       by nobody"
    return lines_of(f"  signed       {moment(one.created)} by {one.identity}" for one in signatures)
