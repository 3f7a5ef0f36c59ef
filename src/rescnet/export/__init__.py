"""Export of a trained network to ONNX and to PyTorch programs."""

from .files import export_onnx, export_program, images_wanted

__all__ = ["export_onnx", "export_program", "images_wanted"]
