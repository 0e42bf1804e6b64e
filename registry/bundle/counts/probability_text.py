"""A probability that is compared with others, as text."""


def probability_text(probability: float) -> str:
    """To three places; nearer to 0 or 1 to as many as tell how near it is, to a twentieth.

    Neighbouring thresholds differ by a fifth of that or more (`LOGIT_BINS`), so they never read alike.
    """
    near = min(probability, 1 - probability)
    places = next((d for d in range(3, 12) if abs(round(probability, d) - probability) <= near / 20), 12)
    return f"{probability:.{places}f}"
