"""Whether a picture can be judged at all.

`measures` the numbers, `rules` what they mean, with thresholds and advice, `judging` all rules together.
"""

from serving.quality.judging import Judged, judge

__all__ = ["Judged", "judge"]
