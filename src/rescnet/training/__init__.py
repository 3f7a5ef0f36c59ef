"""Training: layers added one after the other, each from streamed sums, within a byte budget."""
