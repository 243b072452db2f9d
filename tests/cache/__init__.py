"""The disk cache: files, compiled functions that other processes load."""
