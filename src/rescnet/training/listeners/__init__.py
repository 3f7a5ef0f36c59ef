"""Listeners of a training run: the console table and TensorBoard."""
