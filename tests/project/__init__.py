"""The project itself: its pages, examples, benchmarks, layers, costs, and the checks that random programs make."""
