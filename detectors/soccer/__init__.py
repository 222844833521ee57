"""Soccer: events, a hierarchy of detectors over position sensors, and a generated match to run them on."""
