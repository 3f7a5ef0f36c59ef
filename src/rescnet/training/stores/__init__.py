"""Stores of maps and images: on the device, on the host, or in a file."""
