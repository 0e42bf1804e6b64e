"""A probability that is compared with others, as text."""


def probability_text(probability: float) -> str:
    """To three places; nearer to 0 or 1 to as many as tell how near it is, to a fiftieth.

    Thresholds of `LOGIT_BINS` next to each other differ by more than two fiftieths: none reads like another.
    """
    near = min(probability, 1 - probability)
    places = next((d for d in range(3, 12) if abs(round(probability, d) - probability) <= near / 50), 12)
    return f"{probability:.{places}f}"
