"""Events in order, early: units, their buffers, K-slack, alpha, lanes and retraction. Pure."""
