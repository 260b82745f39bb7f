"""What inferdoc knows, as a page for a Prometheus: its own health, expert balance, verdicts and forecasts."""
