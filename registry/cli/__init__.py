"""`dermfed-registry`: the command line.

- `app`: the application, and the commands of versions, releases and verification.
- `archive`, `audit`, `card`, `diff`, `garbage`, `gates`, `keys`, `sign`: one command or group each.
- `__main__`: `python -m registry.cli`.
- `diff_text`, `signatures`: what commands print of differences and signatures; `output`: as JSON or as text.
"""

from registry.cli.app import main

__all__ = ["main"]
