"""REST of calls: invoking, batches, events, preflight, grants and threads."""
