"""`inferdoc bench`: result files of load generators as curves, the rate they prove at the objectives, and production
beside them."""
