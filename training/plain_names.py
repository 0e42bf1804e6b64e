"""Names that come from elsewhere and may become a file or a folder: each is one plain path segment.

`plain_segment` is the one place that says which names those are. What may be any text, such as a subgroup's
or a tensor's name, never becomes a path as it is: see `clients.store`.
"""

from typing import Annotated

from pydantic import AfterValidator

from training.errors import MessageError, tell

LONGEST = 200  # bytes; file systems take 255, and endings are added
BESIDE = frozenset(" -._+=@%,")  # beside letters and digits
SHOWN = 40  # characters of a name that is refused


def plain_segment(name: str, what: str = "a name") -> str:
    """The name, where it is one plain path segment: it names something in its folder and nothing elsewhere.

    Letters, digits and a few signs, none of which any file system reads as more; no dot at either end, since
    `..` leads out and a file that begins with one is hidden; no blank there, since some systems drop it.

    Args:
        name: as it came.
        what: whose name it is, for the message.

    Raises:
        MessageError: it is none.
    """
    fits = (
        0 < len(name.encode("utf-8", "surrogatepass")) <= LONGEST
        and all(letter.isalnum() or letter in BESIDE for letter in name)
        and not name.startswith((".", " "))
        and not name.endswith((".", " "))
    )
    if not fits:
        raise tell(
            MessageError(
                f"{what} is {name[:SHOWN]!r}, which is no plain name: letters, digits and "
                f"{''.join(sorted(BESIDE))!r}, at most {LONGEST} bytes, no dot or blank at either end; "
                "nothing was opened under it"
            )
        )
    return name


PlainName = Annotated[str, AfterValidator(plain_segment)]
