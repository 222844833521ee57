"""The values of events and of detectors' state: what they may be, how they are copied, compared and carried."""
