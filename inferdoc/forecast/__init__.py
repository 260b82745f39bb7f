"""Load forecasts: series in, calibrated quantiles out, or an abstention that says why."""
