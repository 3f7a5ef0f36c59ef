"""Mathematics without images: linear algebra, threads, sketches, kernels of codes."""
