"""What a released model is (`registry.bundle`), and where released models are kept.

This room knows no torch: whoever serves or audits a model installs it without the training half.
"""
