"""Operating procedures: `references` parses them, `lint` checks them, `editing` saves them, `rendering` shows
them.

`supplies` judges whether a text supplies an input, `impact` and `broken_lines` find lines that a new
version breaks.
"""
