"""The review of changed tools: `inspector` raises findings, `holds` keeps versions out, `decisions` settles
them.
"""
