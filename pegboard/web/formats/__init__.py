"""How each language writes dates and numbers on pages (`FORMAT_MODULE_PATH`)."""
