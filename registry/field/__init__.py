"""What became of the patients: figures of answers whose outcome is known, and alarms at a broken promise.

- `strata`: answers and outcomes by what was answered, which decides who is followed up.
- `corrected`: sensitivity and specificity of all who were asked, from those who were followed up.
- `promises`, `e_process`: what was promised, and the evidence against it, which may be looked at every day.
"""
