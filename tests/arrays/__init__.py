"""NumPy: values, dtypes, signatures and gradients of its functions."""
