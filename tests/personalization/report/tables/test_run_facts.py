from dataclasses import replace

from personalization.report.run_tables import facts


def test_subgroups_are_told_with_their_tones_on_every_scale(everything):
    tones = {"dark": {"fitzpatrick": ("5", "6"), "milk10k": ("0", "1")}, "light": {"fitzpatrick": ("1",)}}
    told = dict(facts(replace(everything, tones=tones)))
    assert told["Subgroups"] == "dark: 5, 6 (fitzpatrick) or 0, 1 (milk10k); light: 1 (fitzpatrick)"
    assert "Subgroups" not in dict(facts(everything))
