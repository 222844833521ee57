"""The log of a UMTS network, driving detectors for each phone."""
