"""Formats of dates and numbers on pages, by language (`FORMAT_MODULE_PATH`)."""
