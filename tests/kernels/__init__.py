"""Machine code of array programs: loop nests, products, reductions."""
