"""Options of a network and of the machine: declarations, presets and checks. No tensor code."""
