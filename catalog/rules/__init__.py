"""Pure rules about versions: `assess` compares, inspects and judges; `policy`, `promises` and `retries` are
its parts.
"""
