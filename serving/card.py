"""The card of what is served: that of the registry, of the release that is loaded."""

from registry.card.contents import Entry, release_card
from registry.card.page import card_page as page
from serving.live import LoadedRelease
from serving.schemas import Card


def card(loaded: LoadedRelease, alias: str) -> Card:
    """The card of a release: the global version first."""
    entries = [Entry.of(one.version, one.manifest) for one in loaded.versions.values()]
    return Card.model_validate(release_card(entries, release=loaded.release, alias=alias))


def card_page(shown: Card) -> str:
    """The card as a page that needs nothing from elsewhere."""
    return page(shown.model_dump(mode="json"))
