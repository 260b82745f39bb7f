"""What the command line shows of the models; without numpy, so that help is quick."""

MODELS = ("combination", "sarima", "dhr", "naive")
SETTLE_SECONDS = 10.0
"""Wall-clock budget of the fit of ARIMA in the combination: usual ones take a third of a second."""
