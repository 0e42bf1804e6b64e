"""What several objectives are built of.

- `momentum_encoder`, `mean_teacher`: second networks that follow the one that learns
- `projection`: heads; `masking`: masks of patches
- `entropy`, `relation_matrix`: of a network's predictions
- `labelled_and_unlabelled`: epochs over both kinds of pictures
- `subgroup_losses`: mean losses by subgroup
"""
