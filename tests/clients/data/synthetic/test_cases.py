from collections import Counter

import numpy as np

from clients.data.synthetic import LABEL_SHARES, TONE_COUNTS, case_of


def test_a_patient_has_one_tone_and_a_lesion_one_label():
    cases = [case_of(2, index) for index in range(600)]
    assert len({(case.patient, case.tone) for case in cases}) == len({case.patient for case in cases})
    assert len({(case.lesion, case.label) for case in cases}) == len({case.lesion for case in cases})


def test_tones_and_labels_occur_in_their_shares_and_independently():
    cases = [case_of(1, index) for index in range(0, 12000, 6)]  # one picture of a patient
    tones = Counter(case.tone for case in cases)
    for tone, expected in enumerate(np.array(TONE_COUNTS) / sum(TONE_COUNTS), start=1):
        error = np.sqrt(expected * (1 - expected) / len(cases))
        assert abs(tones[tone] / len(cases) - expected) < 4 * error
    for label, share in LABEL_SHARES.items():
        of_light = [case.label == label for case in cases if case.tone <= 3]
        of_dark = [case.label == label for case in cases if case.tone > 3]
        assert abs(np.mean(of_light) - share) < 0.05
        assert abs(np.mean(of_dark) - share) < 0.07
