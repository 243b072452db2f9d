"""Three differentiable programs that train on data every machine has; ``make demo`` runs them all."""
