"""Shadow deployment: a mirrored canary runs on a share of the pictures, and callers never see its answers.

- `comparing`: runs the candidate in the background, after the answer was sent.
- `counting`: counters of how the two compare.
- `table`: the comparison for the operator's page.
"""

from serving.monitoring.shadow.table import ShadowRow, shadow_table

__all__ = ["ShadowRow", "shadow_table"]
