"""Decides whether each tool of an agent runs: `obstacles` and `evidence` collect facts, `judgement` is a pure
function of them.
"""
