"""Keeps traces of errors here: FLARE would send them along, with paths of this machine and texts of errors.

What fails before a published method is reached, such as a call with other arguments than it takes, is FLARE's
to answer, and the door of `clients.node.door` never sees it. FLARE makes its answer by two functions of one
module.
"""

import logging

from nvflare.collab.runtime import dispatch

WITHHELD = "withheld: the hospital's own log has it"


def keep_traces(log: logging.Logger) -> None:
    """Have FLARE tell nothing of an error but that there was one; all of it goes to `log`."""

    def trace() -> str:
        log.error(
            "a call of the coordinator failed before it was answered: another version of dermfed there?"
        )
        log.debug("its trace", exc_info=True)
        return WITHHELD

    for name in ("secure_format_traceback", "secure_format_exception"):
        assert hasattr(dispatch, name), f"nvflare has no {name} any more; look how it answers a failed call"
    dispatch.secure_format_traceback = trace
    dispatch.secure_format_exception = lambda error: WITHHELD
