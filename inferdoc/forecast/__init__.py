"""Load forecasts: series in, calibrated quantiles out, or an abstention that says why."""

# Defaults that help shows: here, without numpy, help is quick.
MODELS = ("combination", "sarima", "dhr", "naive")
SETTLE_SECONDS = 10.0
"""Wall-clock budget of the fit of ARIMA in the combination: usual ones take a third of a second."""
