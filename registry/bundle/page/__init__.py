"""What pages that stand alone have in common: the style sheet `base.css`, which each puts into itself."""

from pathlib import Path
from typing import Final

FOLDER: Final = Path(__file__).parent
"""Where a template engine finds `base.css`."""
