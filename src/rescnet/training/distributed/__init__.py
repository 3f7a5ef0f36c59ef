"""Training by several processes with ``torch.distributed``."""
