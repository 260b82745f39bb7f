"""How well objectives are kept: attainment, error budget, goodput, and objectives from history."""
