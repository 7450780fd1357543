"""The founding papers, item by item: what they print, what the product's own verbs find of the same data, and why."""
