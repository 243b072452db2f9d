"""Machine code: control flow, memory, numbers, targets."""
