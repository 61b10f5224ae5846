from pathlib import Path

from django.conf import settings

from catalog.rules.inspection.alarms import SIGNATURE_RULES, TEXT_RULES
from catalog.rules.policy import CLASSES, DEFAULT
from core.invisible_characters import KINDS

CODES = {rule.code for rule in (*TEXT_RULES, *SIGNATURE_RULES, *KINDS)} | {
    *(
        "MIXED_SCRIPT",
        "LOOK_ALIKE",
        "COLLISION",
        "SAME_TOOLS",
        "OTHER_TOOL",
        "FOREIGN_LINK",
        "NEAR_MISS",
        "FREE_TEXT",
    )
}
DOCS = Path(settings.BASE_DIR) / "docs"


def test_every_rule_is_explained():
    text = (DOCS / "inspection.md").read_text()
    assert [code for code in sorted(CODES) if f"`{code}`" not in text] == []


def test_every_class_of_change_is_explained_with_its_default():
    text = (DOCS / "inspection.md").read_text()
    for name in CLASSES:
        line = next(line for line in text.splitlines() if line.startswith(f"| `{name}` |"))
        assert DEFAULT[name] in line


def test_codes_are_unique_and_fit_their_column():
    codes = [rule.code for rule in (*TEXT_RULES, *SIGNATURE_RULES, *KINDS)]

    assert len(codes) == len(set(codes))
    assert max(map(len, codes)) <= 40
