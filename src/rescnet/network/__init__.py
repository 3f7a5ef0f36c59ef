"""A trained network: layers, readout, prediction. No training code and no files."""
