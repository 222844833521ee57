"""What ``slackline bench`` measures: each benchmark beside a baseline in the same run."""
