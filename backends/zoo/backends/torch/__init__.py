"""The torch engine: CPU, CUDA and MPS in one code path."""
