"""Maps of where a model looked: from its numbers to what people are shown, and whether they may be shown it.

- `relevance`: a class's map as shares of its strongest cell; `placement`: where in the picture as it was sent
  the cells lie; `overlay`: the map as a transparent PNG.
- `covering`: pictures with cells covered; `pointing`: whether the strongest cell is on the lesion;
  `shuffled`: the same graph with its weights shuffled.
- `judge`: these three for pictures, as sums by subgroup; `verdict`: whether a version's maps may be shown.
"""
