"""Large fleets: all pods are looked at for impact, and the families that show any are read in full."""
