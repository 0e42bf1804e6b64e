"""Security headers of every response: nothing may be loaded, framed, cached or sniffed.

An answer brings its own `Content-Security-Policy` where it is a page: `PAGE_POLICY` for pages whose style
sheets and scripts are files of ours, `PICTURE_POLICY` for the one among them that answers, `policy_for` for
those that hold their style sheet themselves. All others get the strictest there is, since nothing in JSON is
to be loaded or run.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

POLICY: Final = "Content-Security-Policy"

ANSWER_POLICY: Final = "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
"""The content security policy of whatever is no page."""

PAGE_POLICY: Final = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' blob:; connect-src 'self'; "
    "form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
"""The content security policy of pages: files of our own, and the picture that the browser holds itself."""

PICTURE_POLICY: Final = PAGE_POLICY.replace("blob:", "blob: data:")
"""That of the page which answers: the pictures in it, as the model saw them, and their maps lie within it."""

HEADERS: Final = (
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),  # for browsers that do not know frame-ancestors
    (b"referrer-policy", b"same-origin"),  # no-referrer would make our own form's Origin `null`
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)

_STYLE = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def policy_for(page: str) -> str:
    """The content security policy of a page whose style sheets are inline: it allows them by their hashes."""
    hashes = " ".join(f"'sha256-{_digest(style)}'" for style in _STYLE.findall(page))
    return f"{ANSWER_POLICY}; style-src {hashes}" if hashes else ANSWER_POLICY


def with_security_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a response with every security header that it does not set itself."""
    given = list(headers)
    named = {name.lower() for name, _ in given}
    added = (*HEADERS, (POLICY.lower().encode(), ANSWER_POLICY.encode()))
    return [*given, *(field for field in added if field[0] not in named)]


@lru_cache(maxsize=16)
def _digest(style: str) -> str:
    return base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
