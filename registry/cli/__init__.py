"""The commands `dermfed-registry` and `dermfed-outcomes`.

- `app`: the application, and the commands of adding.
- `show`: lists, versions, history, differences; `bundles`: cards, bundles as folders, archives, signing.
- `releases`: promoting, rolling back, withdrawing, canaries, tags; `gates`; `people`: people and API keys.
- `audit`: verification, the head, garbage collection; `outcomes`: outcomes and alarms.
- `common`: options that several commands share, opening a registry, and how a command ends.
- `__main__`: `python -m registry.cli`.
"""

from registry.cli.app import main

__all__ = ["main"]
