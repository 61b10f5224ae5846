"""Operating an installation: backups, logs, metrics and erased users."""
