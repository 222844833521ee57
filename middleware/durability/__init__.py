"""What survives a crash: checkpoints and recovery. Pure."""
