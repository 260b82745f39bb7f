"""`inferdoc canary`: a rollout gate. Two groups of pods over the same minutes: does the candidate serve worse?"""
