"""Explanation of a prediction: shares of the layers, of the pixels and of the training images."""
