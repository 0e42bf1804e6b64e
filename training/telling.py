"""What a site tells others of an error: what they can mend or must know, never the name of a file.

Whoever owns the data reads the whole of it in the node's own log.
"""

from training.errors import TrainingError

LONGEST = 300  # characters of an error that is not ours
MORE = "its own log says more"


def outward(error: Exception) -> str:
    """An error as it may leave its site.

    Our own errors leave as they are, save those about a hospital's files, which are its owner's alone. Of
    others leaves what the machine says of itself: that it has no memory, what its driver lacks.
    """
    kind = type(error).__name__
    if isinstance(error, TrainingError):
        return f"{kind}; {MORE}" if error.owners_alone else f"{error}"
    if isinstance(error, OSError):
        return f"{kind}: {error.strerror or 'no reason given'}; {MORE}"
    if isinstance(error, MemoryError | RuntimeError):
        line = f"{error}".strip().partition("\n")[0]
        if "/" not in line and "\\" not in line:
            return f"{kind}: {line[:LONGEST]}".rstrip(": ")
    return f"{kind}; {MORE}"
