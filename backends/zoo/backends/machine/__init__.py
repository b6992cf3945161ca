"""This machine as engines see it: devices, threads, memory, measurements."""
