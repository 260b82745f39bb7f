"""`inferdoc serve`: alerts in, diagnoses out, and the incidents as pages, API and metrics."""
