"""Which clients belong together, and the order in which a report shows clients."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

Communities = Mapping[str, Sequence[str]]
"""Names of groups of clients, and who is in them."""


def communities_of(facts: Mapping[str, Any]) -> Communities:
    """The communities that a stage told of; none where it told of none."""
    return {name: tuple(of["clients"]) for name, of in (facts.get("by_community") or {}).items()}


def in_order(clients: Iterable[str], communities: Communities) -> tuple[str, ...]:
    """The clients community by community, each once, and those of no community last."""
    given = dict.fromkeys(clients)
    members = [client for of in communities.values() for client in of if client in given]
    return tuple(dict.fromkeys([*members, *given]))


def present(clients: Sequence[str], communities: Communities) -> dict[str, list[str]]:
    """The members of each community among these clients; a client of several counts in the first."""
    taken: set[str] = set()
    found: dict[str, list[str]] = {}
    for name, of in communities.items():
        members = [client for client in clients if client in of and client not in taken]
        taken |= set(members)
        if members:
            found[name] = members
    return found
