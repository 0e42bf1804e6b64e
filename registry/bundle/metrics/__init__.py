"""Every figure there is, computed from added-up `Counts`; `docs/metrics.md` defines each."""
