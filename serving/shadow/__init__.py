"""A candidate beside production: a share of pictures is shown to both, and nothing of it to the caller.

`comparing` runs the candidate after the answer was sent, `counting` keeps what comes of it, `table` shows it
to the operator.
"""

from serving.shadow.table import ShadowRow, shadow_table

__all__ = ["ShadowRow", "shadow_table"]
