"""What starts dermfed's commands: the one package whose name is ours alone.

The others have common names (`training`, `serving`, …); `own_names` sees to it that nothing is started where
those are somebody else's. This package imports none of them, so that it can be loaded where they cannot.
"""
