"""The numbers of the schema of `bundle.json`: a bundle has the least that says all that is in it."""

from typing import Final

SCHEMA_VERSION: Final = 2
"""That of new bundles: thresholds and histograms are in `LOGIT_BINS`; in schema 1 in `EQUAL_BINS`."""

CASE_SCHEMA: Final = 3
"""That of bundles whose model takes cases, which an older dermfed cannot serve."""

SCALES_SCHEMA: Final = 4
"""That of bundles that name a subgroup over several scales, which an older dermfed cannot route; otherwise as
2, or as 3 where the model takes cases."""

SIGNED_SCHEMA: Final = 5
"""That of bundles whose figures are signed by who measured them, with or without cases and scales: an older
dermfed would not see the signature."""

NEWEST_SCHEMA: Final = SIGNED_SCHEMA
"""The newest that this dermfed reads."""
