"""Prewarm plans: a floor under the user's autoscaler, made from forecasts, emitted for what people run, and proved."""
