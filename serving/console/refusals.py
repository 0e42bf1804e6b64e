"""The registry's refusals as problem responses, in words that fit the page and not a terminal."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from registry.bundle.errors import BundleError
from registry.errors import (
    DatabaseError,
    InvalidName,
    KeyUnusable,
    NotFound,
    PersonRefused,
    Refused,
    SignedForAnother,
    StoreError,
)
from registry.gate_report import OVERRIDE
from serving.protocol.problems import (
    InvalidParameter,
    NothingServed,
    NotSignedForThis,
    ProblemResponse,
    RefusedByRegistry,
    SignatureRefused,
    UnknownModel,
)

_HERE: Final = (
    (OVERRIDE, "or override the gates, with a reason"),
    ("; add --reason TEXT", "; write one beside the button"),
)
"""What commands say, and what the page says instead."""


def for_the_page(text: str) -> str:
    """A text of the registry without options that only a command has."""
    for said, here in _HERE:
        text = text.replace(said, here)
    return text


@contextmanager
def as_problems() -> Iterator[None]:
    """Turns what the registry raises within the block into problem responses.

    Raises:
        NotSignedForThis: it was signed for another state of the registry.
        SignatureRefused: nobody who may do this has signed it.
        RefusedByRegistry: a rule says no.
        UnknownModel, InvalidParameter: it names what there is not, or what cannot be.
        NothingServed: the registry cannot be used.
    """
    try:
        yield
    except SignedForAnother as error:
        raise NotSignedForThis(str(error)) from error
    except PersonRefused as error:
        raise SignatureRefused(str(error)) from error
    except (Refused, KeyUnusable, BundleError) as error:
        raise RefusedByRegistry(for_the_page(str(error))) from error
    except NotFound as error:
        raise UnknownModel(str(error)) from error
    except InvalidName as error:
        raise InvalidParameter(str(error)) from error
    except (DatabaseError, StoreError) as error:
        raise _unusable(error) from error


def _unusable(error: Exception) -> ProblemResponse:
    return NothingServed(f"the registry cannot be used: {error}", {"Retry-After": "5"})
