"""`inferdoc audit --manifest FILE --for-tier NAME`: what cannot work, or not as meant, before anything runs."""
