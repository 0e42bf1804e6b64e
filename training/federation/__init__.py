"""One round of federated learning.

- `server`: the round loop
- `client`: local training and evaluation
- `questions`, `blocks`, `census`, `canary`, `requested_scalars`: the questions that both know
"""

from registry.bundle.old_names import hand_on
from training.deprecated_names import FEDERATION

hand_on(__name__, FEDERATION)
