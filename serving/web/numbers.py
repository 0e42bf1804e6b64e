"""Shares for people."""

NOT_KNOWN = "not known"


def percent(share: float | None) -> str:
    """A share for people: whole per cents, a tenth where there is little or little missing.

    Nothing is rounded to none or to all.
    """
    if share is None:
        return NOT_KNOWN
    value = 100 * share
    if 0 < value < 0.1:
        return "under 0.1 %"
    if 99.9 < value < 100:
        return "over 99.9 %"
    return "{share} %".format(share=f"{value:.1f}" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f}")
