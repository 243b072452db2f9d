"""Learning and statistics: networks, mixtures, trees, ordinary differential equations with parameters."""
