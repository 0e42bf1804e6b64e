"""Which requests a canary answers: by a keyed hash of the first picture, in every worker the same.

Not by the id of the request, which is a new one each time: whoever sends a picture again, since an answer did
not come through or a field was to be filled in, would get another version by chance. And by nothing that a
caller may choose and compute: the key is told to nobody, so that which version a picture gets shows only when
it is asked for, and every answer says it. Where the share rises, pictures that the canary answered stay with
it.
"""

import hashlib
import hmac

from registry.bundle.labels import GLOBAL
from registry.records import Canary
from serving.protocol.parameters import Parameters, subgroup_of
from serving.releases.loading import LoadedRelease


def place_of(key: bytes, picture: bytes) -> float:
    """Where a picture lies between 0 and 1, evenly over pictures; a canary answers those below its share.

    Args:
        key: the canary's.
        picture: its bytes, as they were sent.
    """
    digest = hmac.digest(key, hashlib.sha256(picture).digest(), "sha256")
    return int.from_bytes(digest[:8]) / 2**64


def is_for(canary: Canary, loaded: LoadedRelease, parameters: Parameters) -> bool:
    """Whether a canary is for whom a request declares to be of; `loaded` is its release."""
    if canary.subgroup is None:
        return True
    everybody = loaded.versions[GLOBAL].manifest
    tone, scale = parameters.skin_tone, parameters.skin_tone_scale
    return subgroup_of(loaded.subgroups, everybody, tone, scale) == canary.subgroup
