"""The formats whose target's rules stand in tests/fixtures/exports, which all of ours do."""

from pathlib import Path

from designer import exports

RULES = Path(__file__).parents[2] / "fixtures/exports"
FORMATS = {format_.name: format_ for format_ in exports.FORMATS}
PROVED = [name for name in FORMATS if (RULES / f"{name}.schema.json").exists()]
SCHEMA_FORMATS = ["openai-chat", "anthropic", "mcp", "json-schema"]
