"""Translations of vendors' texts for designers: a translation memory by the digest of the source text.

`scan` notes in the background which texts each tool has and which language they are in. `stored` writes
translations, `files` imports and exports them as CSV and XLIFF. No export of a release contains any.
"""
