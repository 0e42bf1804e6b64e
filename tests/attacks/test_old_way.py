"""The control is what version 0.1.0 sent, number for number.

`version-0.1.0.npz` was written by that version, in a checkout of it:

    rng = np.random.Generator(np.random.PCG64(5))
    given = rng.dirichlet([1.0, 0.6, 0.4], 14), rng.integers(0, 3, 14)
    malignant, lesions = np.array([False, True, False]), rng.integers(0, 9, 14) * 11
    women = np.arange(14) % 3 == 0
    seed = derive_seed(7, "bootstrap", "north", "dark")
    block = count(*given, malignant=malignant, lesions=lesions, replicates=4, seed=seed,
                  parts={("sex", "female"): women})
    of_input = {"probabilities": given[0], "labels": given[1], "malignant": malignant, "lesions": lesions,
                "women": women}
    np.savez_compressed("version-0.1.0.npz", **of_input, **block.to_arrays())
"""

from pathlib import Path

import numpy as np

from tests.attacks.old_way import release, weights

CELL = "cell:sex:female"


def test_the_control_is_what_version_0_1_0_sent():
    with np.load(Path(__file__).parent / "version-0.1.0.npz") as held:
        golden = dict(held)
    given = [golden.pop(name) for name in ("probabilities", "labels", "malignant", "lesions", "women")]
    probabilities, labels, malignant, lesions, women = given
    of_lesions = weights(7, "north", "dark", len(np.unique(lesions)), 4)
    sent = release(probabilities, labels, malignant, of_lesions, lesions, {CELL: women})
    assert sent.keys() == golden.keys()
    for name, array in golden.items():
        np.testing.assert_array_equal(sent[name], array, err_msg=name)
