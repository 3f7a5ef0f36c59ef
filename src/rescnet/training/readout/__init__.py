"""Fit of a kernel readout: sketches, codes, and the system of equations."""
