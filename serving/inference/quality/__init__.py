"""Image quality assessment: whether a picture can be judged at all.

- `measures`: blur, light and contrast of a picture as numbers.
- `rules`: what is an issue, with thresholds and advice.
- `judging`: all rules together.
"""

from serving.inference.quality.judging import QualityAssessment, assess_quality, of_all

__all__ = ["QualityAssessment", "assess_quality", "of_all"]
