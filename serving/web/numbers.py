"""Shares for people."""

from registry.bundle.message import Message, Number

NOT_KNOWN = Message("not known")


def percent(share: float | None) -> Message:
    """A share for people: whole per cents, a tenth where there is little or little missing.

    Nothing is rounded to none or to all.
    """
    if share is None:
        return NOT_KNOWN
    value = 100 * share
    if 0 < value < 0.1:
        return Message("under {share} %", share=Number("0.1"))
    if 99.9 < value < 100:
        return Message("over {share} %", share=Number("99.9"))
    return Message(
        "{share} %", share=Number(f"{value:.1f}" if 0 < value < 1 or 99 < value < 100 else f"{value:.0f}")
    )
